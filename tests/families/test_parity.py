"""Each family equals transformers' PyTorch class, with the same random weights."""

import pytest
from families.decoders import check_packed
from families.reference import reference

from redco_new.models.families import FAMILIES

# One of each kind at once, the others with the slow tests: a decoder of its own template, one of the
# shared template, experts, an encoder, an encoder-decoder.
QUICK = ("gpt-j", "llama", "mixtral", "bert", "t5")
CASES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES]


@pytest.mark.parametrize("family", CASES)
def test_equals_torch(family: str) -> None:
    one = reference(family)
    one.check(one.pair(family))


# One of each kind of attention and of positions: rotary, learned, a window, a cap and windows in turn.
@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt-j", "gpt2", "mistral", "gemma2"])
def test_texts_packed_in_a_row_do_not_see_each_other(family: str) -> None:
    check_packed(reference(family).pair(family))
