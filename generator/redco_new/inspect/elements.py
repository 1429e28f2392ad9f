"""How many parameters arrays hold, some of which store a matrix in few bits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

# Dtype of the codes of a matrix -> how many lie in one, as redco_runtime/nn/adapters/blocks.py packs them.
PACKED = {"int8": 1, "uint8": 2}


def count_elements(rows: Sequence[Mapping[str, Any]]) -> int:
    """Return the parameters of arrays, each with a path, shape and dtype.

    A matrix that is stored in blocks has as many as it would have whole: its scales are none.
    """
    packed = {
        row["path"].removesuffix("/codes"): PACKED[row["dtype"]]
        for row in rows
        if row["path"].endswith("/codes") and row["dtype"] in PACKED
    }

    def count(row: Mapping[str, Any]) -> int:
        matrix, _, name = row["path"].rpartition("/")
        factors = {"codes": packed[matrix], "scales": 0} if matrix in packed else {}
        return math.prod(row["shape"]) * factors.get(name, 1)

    return sum(map(count, rows))
