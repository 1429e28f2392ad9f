"""Make and call a class of other sizes: whether it has the same parts, and calls the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import EllipsisType
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.overrides import TorchFunctionMode
from torch._export.utils import _compiling_state_context

from redco_new.own.call import Call
from redco_new.pytorch.construct import Instance, construct
from redco_new.pytorch.memory import forgets
from redco_new.pytorch.one_device import on_meta
from redco_new.pytorch.selections import compute_all_rows
from redco_new.pytorch.setting import Name, Setting
from redco_new.pytorch.structures import class_of

T = TypeVar("T")


class Recorder(TorchFunctionMode):
    """Record what is called, meanwhile: functions, and where a part is entered and left."""

    def enter(self, part: nn.Module, _: Any) -> None:
        """Record that a part is called."""

    def leave(self, *_: Any) -> None:
        """Record that it has returned."""


R = TypeVar("R", bound=Recorder)


class Calls(Recorder):
    """Record the names of what is called, meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def enter(self, part: nn.Module, _: Any) -> None:
        self.names.append(type(part).__name__)

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.names.append(getattr(function, "__name__", str(function)))
        if function is torch.Tensor.__getitem__:
            self.names += _whole_slices(args[0].shape, args[1])
        if (
            function is torch.Tensor.item and args[0].is_meta
        ):  # the program says whether it is asked for
            return 0
        return function(*args, **(kwargs or {}))


def call_recorded(recorder: R, module: nn.Module, arrays: Mapping[str, Any], device: str) -> R:
    """Return a recorder of what a module calls, as torch.export calls it: it asks for no values.

    device: where new arrays lie that say none
    """
    enter = register_module_forward_pre_hook(recorder.enter)
    leave = register_module_forward_hook(recorder.leave, always_call=True)
    try:
        place = on_meta() if device == "meta" else torch.device(device)
        with forgets(module), _compiling_state_context(), place, recorder:
            module(**arrays)
        return recorder
    finally:
        enter.remove()
        leave.remove()


@dataclass
class Trial:
    """Compare a class of other sizes with that of the user's.

    make: the module of arguments
    base: the user's sizes
    """

    make: Callable[[Mapping[str, Any]], nn.Module]
    call: Call
    base: Setting

    def compare(self, setting: Setting) -> str:
        """Return "same" where the class has the same parts and calls the same, "calls" or "parts" where these are others; "" where it does not run."""
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                instance = construct(lambda: self.make(setting.arguments))
                if _parts(instance) != self._parts:
                    return "parts"
                calls = self._calls(instance, setting)
                return ("same" if calls == self._base_way[2] else "calls") if calls else ""
        except Exception:  # whatever the user's own code raises
            return ""

    def lists(self, setting: Setting) -> dict[str, int]:
        """Return how many parts each list has; {} where it cannot be made."""
        try:
            same = setting is self.base
            instance = self._instance if same else construct(lambda: self.make(setting.arguments))
        except Exception:  # whatever the user's own code raises
            return {}
        parts = instance.module.named_modules()
        return {path: len(part) for path, part in parts if isinstance(part, nn.ModuleList)}

    def lengths(self) -> dict[Name, set[str]]:
        """Return the arguments that say how many parts lists have: name -> paths of those lists."""
        lists, before = dict[Name, set[str]](), self.lists(self.base)
        for name in self.base.names():
            value = self.base.get(name)
            if type(value) is not int or name[0] != "model" or value not in before.values():
                continue
            if not (after := self.lists(self.base.of_layers(name, value + 1))):
                continue
            changed = {path for path in before if after.get(path) != before[path]}
            if changed and all((before[p], after.get(p)) == (value, value + 1) for p in changed):
                lists[name] = changed
        return lists

    def _calls(self, instance: Instance, setting: Setting) -> list[str]:
        """Return what a call of the class calls, one after the other: its parts, and what its author has of torch."""
        return self.as_base(partial(self._call_on, instance, setting)) or []

    def as_base(self, call_on: Callable[[str], T]) -> T | None:
        """Return what a call on a device gives, as that of the user's sizes is called; None where masks select its rows."""
        device, every, _ = self._base_way
        call = partial(call_on, device)
        return compute_all_rows(call) if every else call()

    @cached_property
    def _base_way(self) -> tuple[str, bool, list[str]]:
        """How the class of the user's sizes can be called, and what it calls then.

        Where its own new tensors lie that say no device, and whether all rows are computed of those that masks select.
        """
        for device in ("cpu", "meta"):
            call = partial(self._call_on, self._instance, self.base, device)
            try:
                return device, False, call()
            except Exception:  # whatever the user's own code raises
                if calls := compute_all_rows(call):
                    return device, True, calls
        return "meta", False, []

    def _call_on(self, instance: Instance, setting: Setting, device: str) -> list[str]:
        """Return what a call calls, whose new arrays lie on a device."""
        return call_recorded(Calls(), instance.module, setting.arrays(self.call), device).names

    @cached_property
    def _instance(self) -> Instance:
        return construct(lambda: self.make(self.base.arguments))

    @cached_property
    def _parts(self) -> list[Any]:
        return _parts(self._instance)


def _whole_slices(shape: Sequence[int], index: Any) -> list[str]:
    """Return a word for each slice that takes all: the program has none there."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(not isinstance(x, int | slice | None | EllipsisType) for x in parts):
        return []  # rows that an array chooses
    count = sum(x is not None and x is not ... for x in parts)
    if ... in parts:
        place = parts.index(...)
        parts[place : place + 1] = [slice(None)] * (len(shape) - count)
    of_dims = zip((x for x in parts if x is not None), shape, strict=False)
    bounds = [(x.start, x.stop, n) for x, n in of_dims if isinstance(x, slice)]
    return [
        "whole"
        for start, stop, n in bounds
        if type(stop) is int and stop >= n and not start or stop is None and start == 0
    ]


def _parts(instance: Instance) -> list[Any]:
    return [(path, class_of(part)) for path, part in instance.module.named_modules()]
