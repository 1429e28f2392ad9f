"""BERT against transformers' PyTorch class: padding on both sides, and two sentences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families.decoders import B, S, check_config, ids, lengths
from families.parity import TOLERANCE, logits, make_pair
from families.reference import Reference

from redco_new.errors import RedcoError

SMALL = {
    "vocab_size": 131,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "max_position_embeddings": 64,
}
PADDED = {
    "none": np.ones((B, S), bool),
    "right": np.arange(S) < lengths()[:, None],
    "left": np.arange(S) >= S - lengths()[:, None],
}
TYPES = (np.arange(S) >= np.array([9, 2, 20])[:, None]).astype(np.int32)


def check_forward(both):
    """All logits of tokens, with padding on either side, and of one sentence or of two."""
    x = ids(both)
    for mask in PADDED.values():
        theirs = logits(both.torch, input_ids=x, attention_mask=mask)
        np.testing.assert_allclose(both.ours(x, mask)[mask], theirs[mask], atol=TOLERANCE)
        theirs = logits(both.torch, input_ids=x, attention_mask=mask, token_type_ids=TYPES)
        np.testing.assert_allclose(both.ours(x, mask, TYPES)[mask], theirs[mask], atol=TOLERANCE)


def check_bfloat16(both):
    """Loss and every gradient are finite, and not all zero, in bfloat16."""
    x, mask = ids(both), PADDED["right"]

    def loss(params):
        model = both.merge(params, dtype="bfloat16")
        scores = model(x, mask, TYPES).astype(jnp.float32)
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), x[..., None], axis=-1).mean()

    value, grads = jax.jit(jax.value_and_grad(loss))(both.params)
    assert np.isfinite(value)
    for leaf in jax.tree.leaves(grads):
        assert np.isfinite(leaf).all() and np.any(leaf)


def check(both):
    check_forward(both)
    check_bfloat16(both)
    check_config(both)


REFERENCES = {
    "bert": Reference(
        SMALL,
        check,
        {
            "base": 109_514_298,
            "large": 335_174_458,
            "base-cased": 108_340_804,
            "large-cased": 333_610_308,
        },
    )
}


def test_relu_equals_torch():
    both = make_pair("bert", **SMALL, hidden_act="relu")
    x, mask = ids(both), PADDED["right"]
    theirs = logits(both.torch, input_ids=x, attention_mask=mask)
    np.testing.assert_allclose(both.ours(x, mask)[mask], theirs[mask], atol=TOLERANCE)


def test_longer_texts_than_positions_are_refused():
    both = make_pair("bert", **SMALL)
    with pytest.raises(ValueError, match="65 tokens exceed max_positions 64"):
        both.ours(np.zeros((1, 65), np.int32), np.ones((1, 65), bool))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "mish"}, "hidden_act is 'mish'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"is_decoder": True}, "is_decoder is True"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False"),
    ],
)
def test_what_is_not_honoured_is_refused(changes, message):
    with pytest.raises(RedcoError, match=message):
        make_pair("bert", **SMALL, **changes)
