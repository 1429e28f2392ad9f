"""What a call of a class calls, one after the other, recorded on the meta device: its program, in a tenth of the time that torch.export takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from redco_new.pytorch.trial import Recorder, Trial, call_recorded


@dataclass(frozen=True)
class Step:
    """A call of a function of torch.

    path: of the part that calls it
    arguments: positional arguments, and those by keyword
    has_gradient: whether it is on the way of one
    arrays: what it gives
    new: which of these are no array that it was given
    """

    path: str
    function: Any
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    has_gradient: bool
    arrays: list[torch.Tensor]
    new: list[torch.Tensor]


def record(trial: Trial, module: nn.Module, arrays: Mapping[str, Any]) -> list[Step]:
    """Return what a call of a class calls, as the trial calls it. Raises an error where it does not run."""

    def call_on(device: str) -> _Steps:  # anew, where it is called several times
        return call_recorded(_Steps(module), module, arrays, device)

    recorder = trial.as_base(call_on)
    if recorder is None or not recorder.steps:
        raise LookupError("it calls nothing")
    return recorder.steps


class _Steps(Recorder):
    """Record the steps of a module, meanwhile."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self._paths = {id(part): path for path, part in module.named_modules()}
        self._stack = [""]

    def enter(self, part: nn.Module, _: Any) -> None:
        self._stack.append(self._paths.get(id(part), self._stack[-1]))

    def leave(self, *_: Any) -> None:
        self._stack.pop()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return what a function gives."""
        arguments = tree_map(lambda x: x, (args, kwargs or {}))  # lists may become longer
        versions = {
            id(x): x._version for x in tree_leaves(arguments) if isinstance(x, torch.Tensor)
        }
        result = func(*args, **(kwargs or {}))
        arrays = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        if arrays or result is None:  # or it is a shape
            new = [x for x in arrays if versions.get(id(x)) != x._version]
            grad = torch.is_grad_enabled()
            self.steps.append(Step(self._stack[-1], func, arguments, grad, arrays, new))
        return result
