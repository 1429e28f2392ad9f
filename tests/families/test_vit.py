"""ViT against transformers' PyTorch class, and the sizes known by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from families.decoders import check_config
from families.parity import TOLERANCE, make_pair
from families.reference import Reference

from redco_new.errors import RedcoError
from redco_new.models.find import find_model

SMALL = {
    "image_size": 24,
    "patch_size": 6,
    "num_labels": 7,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
}


def _pixels(channels):
    return np.random.default_rng(0).normal(size=(3, 24, 24, channels)).astype(np.float32)


def check_forward(both):
    """All logits of three images."""
    pixels_BHWC = _pixels(both.config().num_channels)
    with torch.no_grad():
        theirs = both.torch(torch.from_numpy(pixels_BHWC.transpose(0, 3, 1, 2))).logits.numpy()
    assert theirs.shape == (3, 7) and theirs.std() > 0.1
    np.testing.assert_allclose(both.ours(pixels_BHWC), theirs, atol=TOLERANCE)


def check_bfloat16(both):
    """Loss and every gradient are finite, and not all zero, in bfloat16."""

    def loss(params):
        scores = both.merge(params, dtype="bfloat16")(_pixels(3))
        assert scores.dtype == jnp.bfloat16
        return -jax.nn.log_softmax(scores.astype(jnp.float32))[:, 2].mean()

    value, grads = jax.jit(jax.value_and_grad(loss))(both.params)
    assert np.isfinite(value)
    for leaf in jax.tree.leaves(grads):
        assert np.isfinite(leaf).all() and np.any(leaf)


def check(both):
    check_forward(both)
    check_bfloat16(both)
    check_config(both)


REFERENCES = {
    "vit": Reference(
        SMALL, check, {"base-16": 86_567_656, "large-16": 304_326_632, "huge-14": 632_045_800}
    )
}


@pytest.mark.parametrize(
    "changes", [{"num_channels": 1, "hidden_act": "gelu_new"}, {"layer_norm_eps": 0.1}]
)
def test_forms_equal_torch(changes):
    check_forward(make_pair("vit", **SMALL, **changes))


def test_images_of_another_size_are_refused():
    both = make_pair("vit", **SMALL)
    with pytest.raises(ValueError, match=r"\(24, 24, 1\): this model takes \(24, 24, 3\)"):
        both.ours(_pixels(1))
    with pytest.raises(ValueError, match="patch_size 7 must divide image_size 24"):
        both.config(patch_size=7)


@pytest.mark.parametrize("shards", [1, 3, 4, 16])
def test_a_tiny_model_has_a_class_for_each_digit(shards):
    assert find_model("vit", "base-16", shards).tiny.sizes["num_classes"] >= 10


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "mish"}, "hidden_act is 'mish'"),
        ({"qkv_bias": False}, "qkv_bias is False"),
        ({"image_size": (24, 48)}, "image_size is .*, and not a whole number"),
    ],
)
def test_what_is_not_honoured_is_refused(changes, message):
    with pytest.raises(RedcoError, match=message):
        make_pair("vit", **SMALL | changes)
