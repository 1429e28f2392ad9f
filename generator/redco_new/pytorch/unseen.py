"""What a printed class computes at sizes that it was not traced with: a number that is said by chance is another one there."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from flax import nnx
from torch.utils import _pytree as pytree

from redco_new.errors import RedcoError
from redco_new.own.quick_programs import jit_quickly
from redco_new.pytorch.draft import Draft
from redco_new.pytorch.gate import MOST, call_torch, error_of
from redco_new.pytorch.gate_examples import examples, randomize
from redco_new.pytorch.gate_pair import Pair, input_names, make_pair, printed_arrays, with_weights
from redco_new.pytorch.setting import Setting
from redco_new.pytorch.subject import Subject, Way

# What a wrong number ends in: arrays that do not fit, a size of 0 that others are divided by.
WRONG = (ArithmeticError, LookupError, TypeError, ValueError, RedcoError)


def computes_alike(subject: Subject, way: Way, draft: Draft, setting: Setting) -> bool:
    """Return whether a draft gives PyTorch's outputs with other sizes than it was traced with; also where PyTorch gives none with these."""
    text = draft.text()  # which leaves out fields that nothing reads
    other, names = draft.at(setting), input_names(draft.whole, way)
    try:
        module = with_weights(subject, other.small).eval()
        randomize(module)
        arrays = examples(module, other.small, names.values())
        with torch.no_grad():
            theirs = [x.numpy() for x in call_torch(module, arrays, way.plain_call)]
    except Exception:  # whatever the class's own code raises
        return True
    try:
        pair = make_pair(other, module, text)
        ours = _outputs(pair, printed_arrays(arrays, names))
        return all(error_of(a, b) <= MOST for a, b in zip(ours, theirs, strict=True))
    except WRONG:
        return False


def _outputs(pair: Pair, arrays: Any) -> list[np.ndarray]:
    """Return what the printed model gives in evaluation, with the weights of the class in PyTorch."""
    pair.bring_weights()
    pair.printed.eval()
    graph, state = nnx.split(pair.printed)

    @jit_quickly
    def run(state: Any, arrays: Any) -> list[Any]:
        outputs = nnx.merge(graph, state)(**arrays)
        return [x for x in pytree.tree_leaves(outputs) if x is not None]

    return [*map(np.asarray, run(state, arrays))]
