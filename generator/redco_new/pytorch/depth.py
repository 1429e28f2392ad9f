"""A class of many layers, traced as one of few that has the same program: what printing it takes is not to grow with its layers.

What a call of the user's own class calls says whether there is one: its layers come back in periods, with all numbers in them, and
the class of two periods has these and all else as it is. How many layers there are is then a field of the config.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from redco_new.pytorch.buffers import tensors_of
from redco_new.pytorch.constants import numbers_as_steps
from redco_new.pytorch.construct import construct
from redco_new.pytorch.paths import own_path
from redco_new.pytorch.periods import Order, shortest
from redco_new.pytorch.recorded import Step, record
from redco_new.pytorch.setting import Name, Setting
from redco_new.pytorch.structures import class_of
from redco_new.pytorch.subject import Way
from redco_new.pytorch.trial import Trial

MANY = 4  # layers that are traced at once

# A layer: its list, and its number there.
Place = tuple[str, int]
NONE = ("", 0)
INPUT = "input"
FIRST = ("first", 0)  # a layer that all others may read: one that computes what these add


def with_few_layers(way: Way, setting: Setting) -> tuple[Way, Setting]:
    """Return a way and a setting by which a class has as few layers as its whole program needs; the same ones where it needs all.

    setting: the user's
    """
    try:
        with numbers_as_steps():
            return _with_few_layers(way, setting)
    except Exception:  # whatever the class's own code raises: it is traced as it is, which says so
        return way, setting


def _with_few_layers(way: Way, setting: Setting) -> tuple[Way, Setting]:
    trial = Trial(way.make, way.call, setting)
    long = {path for path, n in trial.lists(setting).items() if n > MANY and not _is_inner(path)}
    sizes = {size: paths for size, paths in trial.lengths().items() if paths <= long}
    if not sizes:
        return way, setting
    lists = [path for paths in sizes.values() for path in paths]
    many, few, counts = Program(trial, way, setting, lists), setting, dict[Name, int]()
    for size, paths in sizes.items():
        wanted = {many.least(path) for path in paths}
        count, least = setting.get(size), wanted.pop() if len(wanted) == 1 else 0
        if 0 < least < count:
            few, counts[size] = few.of_layers(size, least), count
    if not counts:
        return way, setting
    short = Program(trial, way, few, lists)
    if not short.begins(many):
        return way, setting
    draws, whole = short.instance.draws, many.instance.draws
    drawn = any(whole.get(name) != draw for name, draw in draws.items())
    return replace(way, layers=counts, drawn_by_layers=drawn), few


def is_of_any_length(way: Way, setting: Setting, size: Name, paths: Iterable[str]) -> bool:
    """Return whether a class with a layer more in some lists has the same program, but for that: no number in it follows from how many there are."""
    more = setting.of_layers(size, setting.get(size) + 1)
    try:
        with numbers_as_steps():
            trial = Trial(way.make, way.call, setting)
            one, other = (Program(trial, way, x, paths) for x in (setting, more))
    except Exception:  # whatever the class's own code raises
        return False
    return one.has_numbers_of(other)


def _is_inner(path: str) -> bool:
    """Return whether a list is in a part of another one."""
    return any(name.isdigit() for name in path.split("."))


class Program:
    """The program of a class, taken apart by the layers of lists.

    trial: by which it is called
    lists: their paths
    """

    def __init__(self, trial: Trial, way: Way, setting: Setting, lists: Iterable[str]) -> None:
        with _Steps() as steps:
            self.instance = construct(lambda: way.make(setting.arguments))
        module = self.instance.module
        self._counts = {path: len([*module.get_submodule(path).children()]) for path in lists}
        # Of each layer, and of what is in none: its program, what that reads of others, and how it draws weights.
        self._rows = defaultdict[Place, list[Hashable]](list)
        self._read = defaultdict[Place, dict[tuple[Any, Any], int]](dict)
        self._draws = defaultdict[Place, list[Hashable]](list)
        self._floats = set[tuple[str, ...]]()  # of steps in no layer
        self._numbers: dict[int, tuple[Place, int, int]] = {}
        arrays = setting.arrays(way.call)
        self._inputs = _inputs(module, arrays)
        recorded = record(trial, module, arrays)  # which is kept: no other array has an id of these
        for step in recorded:
            self._add(step)
        for path, part in module.named_modules():
            place, name = self._place(path)
            parameters = [(key, _kind(x)) for key, x in part.named_parameters(recurse=False)]
            self._rows[place].append((name, class_of(part), tuple(parameters)))
            for key, array in tensors_of(part).items():
                self._rows[place].append((name, key, _kind(array), steps.of(array)))
        for path, draw in self.instance.draws.items():
            place, name = self._place(path)
            self._draws[place].append((name, draw))

    def least(self, path: str) -> int:
        """Return how many layers of a list have all its program, in periods; 0 where these do not fill it."""
        count = self._counts[path]
        kinds = [self._layer(path, i) for i in range(count)]
        single = len({*kinds}) == 1
        order = Order(path, *((0, 1, count) if single else shortest(kinds) or (0, 1, 0)), after=0)
        return order.least if order.before + order.length * order.times == count else 0

    def begins(self, other: Program) -> bool:
        """Return whether a class of more layers has this program, but for these."""
        return all(
            rows == other._rows[place] and self._read[place] == other._read[place]
            for place, rows in self._rows.items()
        )

    def has_numbers_of(self, other: Program) -> bool:
        """Return whether a class of more layers has these, and no other number beside them."""
        layers = {place: rows for place, rows in self._rows.items() if place != NONE}
        alike = all(rows == other._rows[place] for place, rows in layers.items())
        return alike and self._floats == other._floats

    def _layer(self, path: str, number: int) -> Hashable:
        """Return what a layer has in common with others of its program, but for what it is given of the one before, or as the first."""
        rows, read = self._rows[path, number], [*self._read[path, number]]
        others = ((path, i) for i in range(number + 1, self._counts[path]))
        alike = next(([*self._read[x]] for x in others if self._rows[x] == rows), read)
        pairs = zip(read, alike, strict=True)
        if number == 0:
            read = [b if b[0][0] == "before" else a for a, b in pairs]
        elif number == 1:  # to which the first is the one before, too
            read = [b if (b[0], a) == (FIRST, (("before", 1), b[1])) else a for a, b in pairs]
        return tuple(rows), tuple(read), tuple(self._draws[path, number])

    def _place(self, path: str) -> tuple[Place, str]:
        """Return the layer that a part is in, and its path there."""
        for one in self._counts:
            first, _, rest = own_path(path).partition(f"{one}.")
            number, _, name = rest.partition(".")
            if not first and number:
                return (one, int(number)), name
        return NONE, path

    def _add(self, step: Step) -> None:
        place, name = self._place(step.path)
        arguments = self._describe(step.arguments, place)
        if place == NONE:
            floats = [x for x in tree_leaves(step.arguments) if isinstance(x, float)]
            self._floats.add((str(step.function), *map(str, floats)))
        for i, x in enumerate(step.new):
            self._numbers[id(x)] = place, len(self._rows[place]), i
        self._rows[place].append(
            (step.function, arguments, step.has_gradient, _kind(step.arrays), name)
        )

    def _describe(self, x: Any, place: Place) -> Hashable:
        """Return what an operation of a layer is given, as the same one of another layer is."""
        if isinstance(x, Mapping):
            return tuple((key, self._describe(value, place)) for key, value in x.items())
        if isinstance(x, list | tuple):
            return tuple(self._describe(value, place) for value in x)
        if isinstance(x, slice):
            return self._describe(("slice", x.start, x.stop, x.step), place)
        if isinstance(x, np.ndarray):
            return str(x.dtype), x.shape, x.tobytes()
        return self._array(x, place) if isinstance(x, torch.Tensor) else (type(x), str(x))

    def _array(self, x: torch.Tensor, place: Place) -> Hashable:
        owner, number, i = self._numbers.get(id(x), (NONE, -1, 0))
        if number < 0:
            path = self._inputs.get(id(x), "")
            if isinstance(path, str):
                return self._constant(x, path, place)
            return self._read_row((self._seen(NONE, place), path), place)
        if owner == place:
            return "own", number, i
        if owner != NONE:  # from its end: layers of several kinds give what comes last
            number -= len(self._rows[owner])
        return self._read_row((self._seen(owner, place), (number, i)), place)

    def _read_row(self, row: tuple[Any, Any], place: Place) -> Hashable:
        if place == NONE:
            return row
        read = self._read[place]  # numbered, as the first layer reads in its place what others do
        return "read", read.setdefault(row, len(read))

    def _constant(self, x: torch.Tensor, path: Any, place: Place) -> Hashable:
        """Return which parameter or buffer an array is, or the numbers of a constant."""
        if path:
            owner, name = self._place(path)
            return "held", self._seen(owner, place), name, _kind(x)
        if x.is_meta:
            raise LookupError("an array that no step gave")
        return "numbers", str(x.tolist()), _kind(x)

    def _seen(self, owner: Place, place: Place) -> Hashable:
        """Return which layer another one reads: how many before it, or from the end of a list."""
        path, number = owner
        if path == place[0]:
            return FIRST if number == 0 and place[1] > 1 else ("before", place[1] - number)
        return (path, self._counts[path] - number) if path else NONE


def _inputs(module: nn.Module, arrays: Mapping[str, Any]) -> dict[int, Any]:
    """Return what a program is given, by its id: where a parameter or a buffer is, the name of an input."""
    sources = dict[int, Any]()
    for path, part in module.named_modules():
        own = {k: x for k, x in part._parameters.items() if x is not None} | tensors_of(part)
        for name, x in own.items():
            sources.setdefault(id(x), f"{path}.{name}".strip("."))
    return sources | {id(x): (INPUT, name) for name, x in arrays.items()}


class _Steps(TorchDispatchMode):
    """Record how arrays are computed, meanwhile, as buffers are of sizes."""

    def __init__(self) -> None:
        super().__init__()
        self._steps: dict[int, tuple[torch.Tensor, Hashable]] = {}

    def of(self, x: Any) -> Hashable:
        """Return how an array is computed, or what a number is."""
        if isinstance(x, Mapping):
            return tuple((key, self.of(value)) for key, value in x.items())
        if isinstance(x, list | tuple):
            return tuple(map(self.of, x))
        if not isinstance(x, torch.Tensor):
            return type(x), str(x)
        numbers = None if x.is_meta else str(x.tolist())
        return self._steps.get(id(x), (x, (_kind(x), numbers)))[1]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return what a function gives."""
        step = str(func), self.of(args), self.of(kwargs or {})
        result = func(*args, **(kwargs or {}))
        for i, x in enumerate(tree_leaves(result)):
            self._steps[id(x)] = x, (i, step)  # which is kept: no other one has its id
        return result


def _kind(x: Any) -> Hashable:
    """Return the shape and the dtype of an array, or of several."""
    if isinstance(x, list | tuple):
        return tuple(map(_kind, x))
    return (tuple(x.shape), x.dtype) if isinstance(x, torch.Tensor) else (type(x), str(x))
