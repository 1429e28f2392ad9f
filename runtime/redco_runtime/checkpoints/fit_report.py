"""How a checkpoint and the model differ, for people."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.errors import MOST_LINES, first
from ..base.state import dims_of, owner

ABSENT = "absent"
Tensors = Mapping[str, str]  # name in a state, such as params/head/kernel -> dtype and shape


def describe(leaves: Mapping[str, Any], shapes: Mapping[str, Any]) -> Tensors:
    """Return the dtype of each leaf of a state and its shape without padding.

    shapes: path of a parameter -> that shape of it, and so of what the optimizer keeps of it.
    """
    tensors = {}
    for path, leaf in leaves.items():
        own, shape = owner(path, shapes), leaf.shape
        names = (f"{part}/{own}" for part in ("params", "ema", "frozen"))
        whole = next((leaves[name] for name in names if name in leaves), None)
        if own and whole is not None and (dims := dims_of(shape, whole.shape)):
            shape = tuple(shapes[own][dim] for dim in dims)
        tensors[path] = f"{np.dtype(leaf.dtype).name}{list(shape)}"
    return tensors


def differences(there: Tensors, here: Tensors) -> list[str]:
    """Return a line a tensor that differs: of each kind of difference, as many as fit a screen.

    What the optimizer keeps of a parameter follows it, and has one line for all of them otherwise.
    """
    every, kinds = sorted({**there, **here}), dict[tuple[bool, ...], dict[str, None]]()
    differing = [path for path in every if there.get(path) != here.get(path)]
    params = {path.removeprefix("params/") for path in every if path.startswith("params/")}
    for path in differing:
        parameter = path.startswith(("opt_state/", "ema/")) and owner(path, params)
        name, sides = path.removeprefix("params/"), [x.get(path, ABSENT) for x in (there, here)]
        if parameter:
            name = path.removesuffix(parameter) + "*"
            sides = [side.partition("[")[0] for side in sides]
        if not (parameter and f"params/{parameter}" in differing):
            lines = kinds.setdefault((bool(parameter), *(side == ABSENT for side in sides)), {})
            lines[f"{name}: {sides[0]} there, {sides[1]} in the model"] = None
    most = MOST_LINES // max(len(kinds), 1)
    return [line for kind in sorted(kinds) for line in first([*kinds[kind]], most)]
