"""The classes of model.py: one for each class of PyTorch and program of it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import Any

import torch
from torch import nn

from redco_new.pytorch.lists import is_sequential
from redco_new.pytorch.construct import is_size
from redco_new.pytorch.graph import is_leaf
from redco_new.pytorch.inline import is_function
from redco_new.pytorch.paths import own_path
from redco_new.pytorch.kinds import Kind
from redco_new.pytorch.merge import structure
from redco_new.pytorch.layers import Count
from redco_new.pytorch.one_class import OneClass
from redco_new.pytorch.printed_class import Printed, Probe
from redco_new.pytorch.refusal import Unsaid
from redco_new.pytorch.structures import Structures, class_of
from redco_new.pytorch.ties import tied_names

aten = torch.ops.aten
DRAWING = {aten.native_dropout.default, aten.rand.default, aten.randn.default}
KINDS = 4  # into which the parts of one program are parted, by numbers


class Classes:
    """Print all classes of a program, the innermost first.

    inputs: that the whole takes, whether it reads them or not
    lengths: path of a list -> how many parts it has, by a field
    texts: whether it is printed as a decoder of texts, where it is one
    kind: what else it is printed as
    """

    def __init__(
        self,
        probes: Sequence[Probe],
        inputs: Sequence[str],
        lengths: Mapping[str, Count],
        texts: bool = False,
        kind: Kind | None = None,
    ) -> None:
        self.probes, self.module = probes, probes[0].traced.module
        self.graphs = probes[0].traced.graphs
        self.inputs, self.texts, self.kind = inputs, texts, kind
        self.printed: dict[Hashable, Printed] = {}
        self.imports: set[str] = set()
        self.notes: list[str] = []
        self.stacked: set[str] = set()  # lists whose parts are one, with stacked parameters
        self.lengths = lengths
        self.remat = False  # whether layers are in a loop that the config says what to save of
        self.drops = any(map(_drops, self.module.modules()))
        self.structures = Structures(self.module, self.graphs)

    @cached_property
    def groups(self) -> dict[Hashable, list[str]]:
        """The parts that are of one class and one program: their paths."""
        groups: dict[Hashable, list[str]] = {}
        for path in self.graphs:
            if self.is_class(path):
                groups.setdefault(self.key(path), []).append(path)
        return groups

    def part(self, path: str) -> nn.Module:
        """Return a part of the class."""
        return self.module.get_submodule(own_path(path))

    def is_class(self, path: str) -> bool:
        """Return whether a part has a class in model.py."""
        part = self.part(path)
        if is_leaf(self.module, path) or is_sequential(part) and path:
            return False
        return not path or not self.is_expression(path)

    def is_expression(self, path: str) -> bool:
        """Return whether a part is written out where it is called: within a Sequential, one that is a single expression and draws nothing."""
        if not is_function(self.module, path):
            return False
        within = self.part(path.rpartition(".")[0])
        graph = self.graphs.get(path)  # nn.Identity has none
        nodes = graph.nodes if graph and is_sequential(within) else ()
        steps = [node for node in nodes if node.op == "call_function"]
        return all(len(x.users) < 2 and x.target not in DRAWING for x in steps)

    def key(self, path: str) -> Hashable:
        """Return what parts of one class have in common."""
        part = self.part(path)
        holds = tuple(k for k, x in part._parameters.items() if x is not None)  # others may read it
        return class_of(part), holds, self.structures.of(path), self._tables(path)

    def _tables(self, path: str) -> Hashable:
        """Return the structure of how buffers are computed that a part reads, and those that it calls: two kinds of layers may have other ones."""
        below = f"{path}.".removeprefix(".")
        read = [
            f"{own_path(other)}.{node.target}".removeprefix(".")
            for other, graph in self.graphs.items()
            if f"{other}.".startswith(below)
            for node in graph.find_nodes(op="get_attr")
        ]
        tables = self.probes[0].buffers
        return tuple(structure(tables[name], str) for name in read if name in tables)

    def read_above(self, path: str) -> set[str]:
        """Return what of a part, by paths below it, others than it read: as the encoder within a model that has it."""
        return self._read_above.get(own_path(path), set())

    @cached_property
    def _read_above(self) -> dict[str, set[str]]:
        read: dict[str, set[str]] = {}
        for path, graph in self.graphs.items():
            depth = len(path.split(".")) if path else 0
            for node in graph.nodes:
                if node.op not in ("call_module", "get_attr"):
                    continue
                whole = own_path(f"{path}.{node.target}".removeprefix("."))
                names = tied_names(self.module).get(whole, whole).split(".")
                for i in range(depth + 1, len(names)):
                    above = ".".join(names[:i])
                    if above in self.graphs and self.is_class(above):
                        read.setdefault(above, set()).add(".".join(names[i:]))
        return read

    def _parted_by(self, path: str, values: Sequence[Hashable]) -> Mapping[str, Hashable]:
        """Return marks of the instances of a class by a number that follows from no size of all of them; {} where it parts none.

        values: of the number, for each probe of each instance
        """
        paths, count = self.groups[self.key(path)], len(self.probes)
        rows = [tuple(values[i : i + count]) for i in range(0, len(values), count)]
        if len(rows) < len(paths) or not 1 < len({*rows}) <= KINDS:
            return {}
        marks = {
            x: (self.structures.marks.get(x), *row) for x, row in zip(paths, rows, strict=True)
        }
        return {**self.structures.marks, **marks}

    def note(self, text: str) -> None:
        """Add a line for the user, once."""
        if text not in self.notes:
            self.notes.append(text)

    def of(self, path: str) -> Printed:
        """Return the class of a part, printed."""
        key = self.key(path)
        if key not in self.printed:
            try:
                printed = OneClass(self, self.groups[key]).print()
            except Unsaid as error:
                if marks := self._parted_by(path, error.values):
                    raise Parted(marks) from error
                error.by_probe = error.by_probe or _by_probe(error.values, len(self.probes))
                raise
            others = {other.name for other in self.printed.values()}
            names = (f"{printed.name}{n}" for n in count(2))
            if printed.name in others:
                printed.name = next(name for name in names if name not in others)
            self.printed[key] = printed
            self.imports |= printed.imports
        return self.printed[key]


class Parted(Exception):
    """Say that instances of a class are to be printed apart.

    marks: path of an instance -> what it has in common with those that it is printed with
    """

    def __init__(self, marks: Mapping[str, Hashable]) -> None:
        self.marks = marks


def print_classes(*program: Any) -> tuple[Classes, Printed]:
    """Return all classes of a program, and that of the whole. program: as Classes has it"""
    marks: Mapping[str, Hashable] = {}
    while True:
        classes = Classes(*program)
        classes.structures.marks = marks
        try:
            return classes, classes.of("")
        except Parted as parted:
            marks = parted.marks


def _by_probe(values: Sequence[Any], probes: int) -> tuple[Any, ...]:
    """Return a number in each probe; () where instances of a class have others. values: for each probe of each instance"""
    columns = [{*values[i::probes]} for i in range(probes)]
    alike = all(len(column) == 1 and is_size(*column) for column in columns)
    return tuple(values[:probes]) if alike else ()


def _drops(part: nn.Module) -> bool:
    """Return whether a layer of torch.nn has dropout."""
    return isinstance(part, nn.Dropout) or isinstance(part, nn.RNNBase) and part.dropout > 0
