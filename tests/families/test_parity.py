"""Each family equals transformers' PyTorch class, with the same random weights."""

import pytest
from families.reference import reference

from redco_new.models.families import FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_equals_torch(family: str) -> None:
    one = reference(family)
    one.check(one.pair(family))
