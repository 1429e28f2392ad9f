"""How many rows a block of an expert has, on each kind of device."""

# Of Triton's tiles: from the least that it multiplies to the most whose sums lie in registers.
GPU = (16, 32, 64, 128)
# libtpu multiplies tiles of 128 rows, and one in which groups meet once for each of them: as many as
# rows / 128 + E - 1. In blocks of that size none meet.
TPU = (1, 128)
# Of an even share of rows, a block has so little that those that fill up the last are an eighth, in the
# mean over sizes of groups: 1.06 to 1.12 of the rows of Mixtral and Qwen3-MoE, at most 1.25.
SHARE = 4


def block_rows(blocks: tuple[int, ...], even: int) -> int:
    """Return the rows of a block where an expert has `even` rows if all have as many.

    blocks: how many rows a block may have, rising.
    """
    least, *others = blocks
    return max([least, *(block for block in others if block * SHARE <= even)])
