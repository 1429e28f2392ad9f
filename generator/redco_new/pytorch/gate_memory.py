"""Whether a call of a class in PyTorch gives the same after another one: what is printed knows of no former call but by its buffers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from redco_new.own.call import Call
from redco_new.pytorch.gate import MOST, call_torch, error_of
from redco_new.pytorch.memory import forgets, notes_assignments, place_of_write
from redco_new.pytorch.refusal import refuse

ANEW = "compute that anew in each call"
IN_TRAINING = "write it within `if self.training:`"


def refuse_memory(module: nn.Module, arrays: Mapping[str, np.ndarray], call: Call) -> None:
    """Raise RedcoError, with its line, for a class whose outputs follow from what a former call assigned, or in evaluation wrote."""
    buffers = _Buffers(module)
    for training in (False, True):
        module.train(training)
        with torch.no_grad():
            with forgets(module):
                with notes_assignments() as places:
                    call_torch(module, arrays, call)
                written = buffers.bring_back()
                after = call_torch(module, arrays, call)
                again = call_torch(module, arrays, call) if written and not training else after
                buffers.bring_back()
            with forgets(module):
                first = call_torch(module, arrays, call)
                buffers.bring_back()
        if not _alike(again, after):
            what = f"evaluation reads what it wrote into its buffer {written[0]}"
            raise refuse(place_of_write(module, written[0]), what, IN_TRAINING)
        if places and not _alike(after, first):
            names = ", ".join(f"self.{name}" for name in places)
            what = f"its next call gives something else, by what it assigns to {names}"
            raise refuse(next(iter(places.values())), what, ANEW)


class _Buffers:
    """The buffers of a module as they were."""

    def __init__(self, module: nn.Module) -> None:
        self._former = [(name, x, x.clone()) for name, x in module.named_buffers()]

    def bring_back(self) -> list[str]:
        """Put back what was in them; return the names of those that were written."""
        changed = [(name, x, y) for name, x, y in self._former if not torch.equal(x, y)]
        for _, x, former in changed:
            x.copy_(former)
        return [name for name, _, _ in changed]


def _alike(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> bool:
    pairs = zip(ours, theirs, strict=True)
    return all(error_of(x.numpy(), y.numpy()) <= MOST for x, y in pairs)
