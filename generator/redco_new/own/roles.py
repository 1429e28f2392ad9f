"""What the inputs of a class are: ids, masks, positions, numbers; by what its program does with them."""

from __future__ import annotations

from typing import Literal

import numpy as np

from redco_new.request.own_class import Input
from redco_new.own.build import AbstractModel
from redco_new.own.flows import Use

Role = Literal["ids", "mask", "segments", "length", "positions", "numbers"]


def input_role(x: Input, use: Use) -> Role:
    """Return what an input is. Whole numbers that nothing tells apart are ids."""
    if not np.issubdtype(x.dtype, np.integer):
        return "mask" if x.dtype == "bool" or use.scores else "numbers"
    if x.below or any(table.origin for table in use.tables):
        return "ids"
    if use.positions:
        return "positions"
    if use.tables:
        return "ids"
    if use.length:
        return "length"
    if use.segments:
        return "segments"
    return "mask" if use.mask else "ids"


def is_whole(x: Input) -> bool:
    """Return whether an input has whole numbers."""
    return bool(np.issubdtype(x.dtype, np.integer))


def id_sequences(model: AbstractModel) -> list[str]:
    """Return the inputs of a class that are ids (B, S), in their order."""
    return [
        name
        for name, x in model.inputs.items()
        if len(x.shape) == 1 and is_whole(x) and input_role(x, model.uses[name]) == "ids"
    ]


def text_inputs(model: AbstractModel, count: int, words: int) -> list[str]:
    """Return the `count` inputs that logits of so many words are of: at most as many as there are.

    Those that index as many words come first, before positions that are learned, say.
    """
    names = id_sequences(model)
    of_words = [n for n in names if any(table.rows == words for table in model.uses[n].tables)]
    others = [name for name in names if name not in of_words]
    chosen = [*of_words, *others][:count]
    return [name for name in names if name in chosen]
