"""Blocks that are alike, by the paths that NNX and Linen give their parameters."""

import pytest

from redco_new.own.repeats import count_repeats

BLOCK = {"kernel": (8, 8), "bias": (8,)}


def arrays(*prefixes, block=BLOCK):
    return [(f"{prefix}{path}", shape) for prefix in prefixes for path, shape in block.items()]


@pytest.mark.parametrize("prefix", ["net/blocks/{}/", "Block_{}/"])
def test_many_blocks_that_are_alike(prefix):
    alike = arrays(*(prefix.format(i) for i in range(16)))
    other = arrays("head/", prefix.format(16), block={"kernel": (4, 8)})
    assert count_repeats(alike + other) == (prefix.format("*").rstrip("/"), 16)


def test_few_or_unlike_blocks_are_not_told():
    assert count_repeats(arrays(*(f"blocks/{i}/" for i in range(15)))) == ("", 0)
    assert count_repeats((f"blocks/{i}/kernel", (8 + i, 8)) for i in range(20)) == ("", 0)
    assert count_repeats(arrays("conv1/", "conv2/")) == count_repeats([]) == ("", 0)
