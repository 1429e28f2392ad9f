"""Make a class on the meta device, without memory, and note what each of its parts was made with."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.utils._device import _device_constructors

from redco_new.pytorch.draws import Draw, draws_of, record_draws
from redco_new.pytorch.entries import keep_entries
from redco_new.pytorch.norms import part_norms
from redco_new.pytorch.numbers_read import ReadNumbers, default_dtype
from redco_new.pytorch.setting import members

Size = int | float


NOTE = "_redco_arguments"  # of a module, while it is made
HOLDS = register_module_parameter_registration_hook, register_module_buffer_registration_hook
COPY = "__newobj__"  # what copies objects, without their arguments


@dataclass(frozen=True)
class Instance:
    """A module, and the arguments of the constructors of it and of its parts.

    arguments: path of a part, "" for the whole -> argument -> value
    draws: name of a parameter -> what the constructor fills it with, where that is clear
    """

    module: nn.Module
    arguments: Mapping[str, Mapping[str, Any]]
    draws: Mapping[str, Draw]

    def sizes(self, path: str) -> dict[str, Size]:
        """Return the numbers that a part was made with: `width`, or `config.width` of an object."""
        sizes: dict[str, Size] = {}
        for name, value in self.arguments.get(path, {}).items():
            if is_size(value):
                sizes[name] = value
            elif isinstance(value, tuple | list):
                sizes |= {f"{name}[{i}]": x for i, x in enumerate(value) if is_size(x)}
            sizes |= {f"{name}.{k}": x for k, x in members(value).items() if is_size(x)}
        return sizes


def construct(
    make: Callable[[], nn.Module], device: str = "meta", dtype: torch.dtype = torch.float32
) -> Instance:
    """Return the module that `make` makes on a device, in training mode.

    dtype: of its parameters and buffers, but for those of which it says another
    """
    _device_constructors.cache_clear()  # of what others had replaced then, as transformers linspace
    with (
        default_dtype(dtype),
        torch.device(device),
        record_draws() as draw_of,
        ReadNumbers(),
        _on(device),
        _note_arguments(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # which its users see where they make it
        module = make()
    keep_entries(module)
    part_norms(module)
    _switch_off(module)
    parts = {path: part for path, part in module.named_modules() if NOTE in vars(part)}
    arguments = {path: _arguments_of(part) for path, part in parts.items()}
    for part in parts.values():
        del vars(part)[NOTE]
    return Instance(module.train(), arguments, draws_of(module, draw_of))


def _switch_off(module: nn.Module) -> None:
    """Take out dropout whose rate is 0: what is switched off is not printed."""
    for part in [*module.modules()]:
        for name, x in part._modules.items():
            if isinstance(x, _DropoutNd) and not x.p:
                part._modules[name] = off = nn.Identity()
                vars(off).update(p=x.p, inplace=False)  # which forward may read


@contextmanager
def _on(device: str) -> Iterator[None]:
    """Keep on a device what `torch.Tensor(sizes)` makes, which is on the CPU whatever the device is."""

    def moved(part: nn.Module, name: str, x: Any) -> Any:
        if x is None or x.device.type == device:
            return None
        there = x.detach().to(device)
        return nn.Parameter(there, x.requires_grad) if isinstance(x, nn.Parameter) else there

    handles = [hold(moved) for hold in HOLDS]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _arguments_of(part: nn.Module) -> dict[str, Any]:
    """Return what a part was made with.

    In the place of a module that it was given stands what that was made with, in that of None what the part keeps by that name.
    """
    arguments: dict[str, Any] = {}
    for name, value in vars(part)[NOTE].items():
        if isinstance(value, nn.Module) and NOTE in vars(value):
            arguments = _arguments_of(value) | arguments
        elif value is None and is_size(getattr(part, name, None)):
            arguments[name] = getattr(part, name)
        else:
            arguments[name] = value
    return arguments


@contextmanager
def _note_arguments() -> Iterator[None]:
    """Record in each module that is made meanwhile what it is made with, as {argument: value}: its copies have that too."""
    token = _noting.set(True)
    try:
        yield
    finally:
        _noting.reset(token)


_noting: ContextVar[bool] = ContextVar("noting", default=False)


def _new(cls: type[nn.Module], /, *args: Any, **kwargs: Any) -> nn.Module:
    """Make an empty module, as Python does; while arguments are noted, with those of its constructor."""
    module = object.__new__(cls)
    code: Any = getattr(cls.__init__, "__code__", None)
    several, caller = code.co_argcount if code else 0, sys._getframe(1)
    # Of the user's own, which Python gives what __init__ is given.
    if caller.f_code.co_name == "__new__":
        args, kwargs = _arguments_in(caller)
    if _noting.get() and several and caller.f_code.co_name != COPY:
        names = code.co_varnames[1 : several + code.co_kwonlyargcount]
        defaults: tuple[Any, ...] = cls.__init__.__defaults__ or ()
        values = dict(zip(names[several - 1 - len(defaults) : several - 1], defaults, strict=True))
        values |= cls.__init__.__kwdefaults__ or {}
        values |= dict(zip(names[: several - 1], args, strict=False)) | kwargs
        vars(module)[NOTE] = {name: values[name] for name in names if name in values}
    return module


def _arguments_in(frame: FrameType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what a `__new__` that runs was called with, but for the class."""
    there = inspect.getargvalues(frame)
    named, count = frame.f_code.co_varnames, frame.f_code.co_argcount
    values = {name: there.locals[name] for name in named if name in there.locals}
    more = values.get(there.varargs or "", ())
    only = named[count : count + frame.f_code.co_kwonlyargcount]
    kwargs = {name: values[name] for name in only if name in values}
    positional = tuple(values[name] for name in named[1:count] if name in values)
    return (*positional, *more), kwargs | values.get(there.keywords or "", {})


# For good: a class whose __new__ is taken away again takes no arguments any more. A profiler of
# all calls would see the same, at a third of the time of all that is made meanwhile.
nn.Module.__new__ = staticmethod(_new)  # type: ignore[assignment]


def is_size(value: Any) -> bool:
    """Return whether an argument is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)
