"""What a class is made and called with, and the sizes in it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

import torch
from torch import nn

from redco_new.own.call import Call
from redco_new.request.own_class import Input

# Of a size: ("model", argument, attribute), ("input", name, dim), ("batch",).
Name = tuple[str | int, ...]
TORCH = {"int32": "int64"}  # what PyTorch's classes have for ids
UNREAD = "_redco_unread"  # of a class: attributes of its objects whose numbers are no sizes
BATCHES = (2, 3, 5, 7)  # of the user's sizes, and of the others


@dataclass(frozen=True)
class Setting:
    """What a class is instance and called with.

    arguments: of the constructor
    inputs: of the call, by name
    """

    arguments: Mapping[str, Any]
    inputs: Mapping[str, Input]
    batch: int = BATCHES[0]

    def get(self, name: Name) -> Any:
        """Return a size."""
        if name[0] == "batch":
            return self.batch
        if name[0] == "input":
            return self.inputs[str(name[1])].shape[int(name[2])]
        value = self.arguments[str(name[1])]
        for key in name[2:]:
            value = value[key] if isinstance(value, Mapping) else getattr(value, str(key))
        return value

    def names(self) -> list[Name]:
        """Return all numbers that the class is instance and called with."""
        names: list[Name] = []
        for argument, value in self.arguments.items():
            names += [("model", argument, *keys) for keys in _numbers(value)]
        for name, x in self.inputs.items():
            names += [("input", name, i) for i in range(len(x.shape))]
        return names

    def set(self, names: tuple[Name, ...], value: Any) -> Setting:
        """Return the setting with another value of some sizes."""
        arguments, inputs = dict(self.arguments), dict(self.inputs)
        for name in names:
            if name[0] == "input":
                x = inputs[str(name[1])]
                shape = tuple(value if i == name[2] else n for i, n in enumerate(x.shape))
                inputs[str(name[1])] = Input(shape, x.dtype, x.below)
            else:
                key = str(name[1])
                arguments[key] = _replace(arguments[key], name[2:], value)
        return Setting(arguments, inputs, self.batch)

    def of_layers(self, size: Name, count: int) -> Setting:
        """Return the setting with another number of layers, and of what arguments list for each of them."""
        former, setting = self.get(size), self.set((size,), count)
        holder = setting.arguments if len(size) == 2 else members(setting.get(size[:-1]))
        for key, items in holder.items():
            if isinstance(items, list | tuple) and len(items) == former > 0:
                more = [items[-1]] * (count - former)
                setting = setting.set(((*size[:-1], key),), type(items)([*items[:count], *more]))
        return setting

    def arrays(self, call: Call, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
        """Return the arguments of a call of the class, on the meta device: arrays of zeros, and constants.

        dtype: of numbers
        """

        def zeros(x: Input) -> torch.Tensor:
            own = getattr(torch, TORCH.get(x.dtype, x.dtype))
            own = dtype if own == torch.float32 else own
            return torch.zeros((self.batch, *x.shape), dtype=own, device="meta")

        return call.fill({name: zeros(x) for name, x in self.inputs.items()})


def _replace(value: Any, keys: Name, new: Any) -> Any:
    if not keys:
        return new
    key = str(keys[0])
    if isinstance(value, Mapping):
        return {**value, key: _replace(value[key], keys[1:], new)}
    other = copy.copy(value)
    setattr(other, key, _replace(getattr(value, key), keys[1:], new))
    return other


def _numbers(value: Any, depth: int = 0) -> Iterator[Name]:
    """Yield where numbers are in an argument: (), a key of a dict, an attribute of an object; those of a tuple, and of a dict of an object, stay as they are."""
    if isinstance(value, bool) or depth > 2:
        return
    if isinstance(value, int | float):
        yield ()
    for key, item in members(value).items():
        if isinstance(value, Mapping) or not isinstance(item, Mapping):
            yield from ((key, *keys) for keys in _numbers(item, depth + 1))


class Fixed(dict[str, Any]):
    """A dict of an argument whose numbers stay as they are."""


def attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, as `vars` has them, whatever a class makes of reading them."""
    try:
        own: dict[str, Any] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return own


def members(value: Any) -> dict[str, Any]:
    """Return what an argument holds by name: items of a dict, attributes of an object; {} of all else."""
    items: Mapping[Any, Any] = {}
    if isinstance(value, Mapping):
        items = {} if isinstance(value, Fixed) else value
    elif not isinstance(value, nn.Module | type):
        unread = getattr(type(value), UNREAD, ())
        items = {key: x for key, x in attributes(value).items() if key not in unread}
    return {key: x for key, x in items.items() if str(key).isidentifier() and not iskeyword(key)}


def argument_of(value: Any, arguments: Mapping[str, Any]) -> str:
    """Return the argument that an object is, is within, or is a copy of; "" for none."""
    for key, other in arguments.items():
        if other is value:
            return key
    for key, other in arguments.items():
        if any(x is value for x in members(other).values()):
            return key  # model.py has one config, which has the numbers of those within it
    return next((key for key, other in arguments.items() if _is_copy(value, other)), "")


def _is_copy(one: Any, other: Any) -> bool:
    """Return whether an object has all numbers of another one: what else it has is in the program of what it makes."""
    first, second = (
        {key: x for key, x in members(value).items() if isinstance(x, int | float)}
        for value in (one, other)
    )
    return type(one) is type(other) and first == second
