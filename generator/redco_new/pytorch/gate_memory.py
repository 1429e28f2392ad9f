"""Whether a call of a class in PyTorch gives the same after another one: what is printed knows of no former call."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from redco_new.own.call import Call
from redco_new.pytorch.gate import MOST, call_torch, error_of
from redco_new.pytorch.memory import forgets, notes_assignments
from redco_new.pytorch.refusal import refuse


def refuse_memory(module: nn.Module, arrays: Mapping[str, np.ndarray], call: Call) -> None:
    """Raise RedcoError, with its line, for a class whose outputs follow from what a former call assigned."""
    for training in (False, True):
        module.train(training)
        with torch.no_grad():
            with forgets(module):
                with notes_assignments() as places:
                    call_torch(module, arrays, call)
                after = call_torch(module, arrays, call)
            with forgets(module):
                first = call_torch(module, arrays, call)
        pairs = zip(after, first, strict=True)
        if places and not all(error_of(x.numpy(), y.numpy()) <= MOST for x, y in pairs):
            names = ", ".join(f"self.{name}" for name in places)
            what = f"its next call gives something else, by what it assigns to {names}"
            raise refuse(next(iter(places.values())), what, "compute that anew in each call")
