"""Blocks of a class that are alike and stand one after the other: each is compiled by itself."""

import re
from collections import defaultdict
from collections.abc import Iterable

# The number of a block in a path: blocks/3/kernel of NNX, Block_3/kernel of Linen.
NUMBER = re.compile(r"(?:^|(?<=[/_]))\d+(?=/)")
# As many as a laptop compiles in a minute: 84 blocks of three parts took 71 CPU s on 16 devices, 8 as a loop.
MANY = 16


def count_repeats(arrays: Iterable[tuple[str, tuple[int, ...]]]) -> tuple[str, int]:
    """Return (path with * for the number, how many) of the most blocks that are alike; ("", 0) if few are.

    arrays: (path, shape) of each parameter
    """
    blocks = defaultdict[tuple[str, str], dict[str, tuple[int, ...]]](dict)
    for path, shape in arrays:
        if number := NUMBER.search(path):
            blocks[path[: number.start()], number[0]][path[number.end() :]] = shape
    alike = defaultdict[tuple[str, tuple[tuple[str, tuple[int, ...]], ...]], int](int)
    for (prefix, _), parts in blocks.items():
        alike[prefix, tuple(sorted(parts.items()))] += 1
    (prefix, _), most = max(alike.items(), key=lambda item: item[1], default=(("", ()), 0))
    return (f"{prefix}*", most) if most >= MANY else ("", 0)
