"""OPT against transformers' PyTorch class: norms before and after, and tokens of fewer features."""

import numpy as np
import pytest
from families.decoders import B, S, check_all, ids, lengths
from families.parity import TOLERANCE, logits, make_pair
from families.reference import Reference

from redco_new.errors import RedcoError

SMALL = {
    "vocab_size": 131,
    "hidden_size": 48,
    "ffn_dim": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "max_position_embeddings": 64,
}
REFERENCES = {
    "opt": Reference(
        SMALL,
        check_all,
        {
            "125m": 125_239_296,
            "350m": 331_196_416,
            "1.3b": 1_315_758_080,
            "2.7b": 2_651_596_800,
            "6.7b": 6_658_473_984,
            "13b": 12_853_473_280,
            "30b": 29_974_540_288,
            "66b": 65_719_701_504,
        },
        seed=16,
    )
}
FORMS = {  # and a seed with which greedy texts do not repeat one token
    "350m": (20, {"do_layer_norm_before": False, "word_embed_proj_dim": 24}),
    "gelu": (17, {"activation_function": "gelu", "word_embed_proj_dim": 24}),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_forms_equal_torch(form):
    seed, changes = FORMS[form]
    check_all(make_pair("opt", seed, **SMALL | changes))


def test_positions_are_those_that_torch_finds_in_the_mask():
    both = make_pair("opt", **SMALL)
    x, mask = ids(both), np.arange(S) >= S - lengths()[:, None]
    positions = np.maximum(mask.cumsum(1) - 1, 0).astype(np.int32)
    model = both.ours
    found, _ = model.decode(x, positions, mask, model.init_cache(B, S), 0)
    theirs = logits(both.torch, input_ids=x, attention_mask=mask)
    np.testing.assert_allclose(model.logits(found)[mask], theirs[mask], atol=TOLERANCE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"activation_function": "mish"}, "activation_function is 'mish'"),
        ({"enable_bias": False}, "enable_bias is False"),
        ({"layer_norm_elementwise_affine": False}, "layer_norm_elementwise_affine is False"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False"),
    ],
)
def test_what_is_not_honoured_is_refused(changes, message):
    with pytest.raises(RedcoError, match=message):
        make_pair("opt", **SMALL, **changes)
