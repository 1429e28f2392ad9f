"""What a call of a class calls, one after the other, recorded on the meta device: its program, in a tenth of the time that torch.export takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch._export.utils import _compiling_state_context
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from redco_new.pytorch.memory import forgets
from redco_new.pytorch.selections import compute_all_rows
from redco_new.pytorch.trial import Trial


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
    device, every, _ = trial.base_way
    call = partial(_record, device, module, arrays)
    steps = compute_all_rows(call) if every else call()
    if not steps:
        raise LookupError("it calls nothing")
    return steps


def _record(device: str, module: nn.Module, arrays: Mapping[str, Any]) -> list[Step]:
    recorder = _Recorder(module)
    enter = register_module_forward_pre_hook(recorder.enter)
    leave = register_module_forward_hook(recorder.leave, always_call=True)
    try:
        with forgets(module), _compiling_state_context(), torch.device(device), recorder:
            module(**arrays)
        return recorder.steps
    finally:
        enter.remove()
        leave.remove()


class _Recorder(TorchFunctionMode):
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
