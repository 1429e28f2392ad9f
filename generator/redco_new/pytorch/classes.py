"""The classes of model.py: one for each class of PyTorch and program of it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import fx, nn

from redco_new.pytorch.body import Body, Reference
from redco_new.pytorch.construct import Instance
from redco_new.pytorch.expressions import parse
from redco_new.pytorch.graph import Traced, is_function, is_leaf, own_path
from redco_new.pytorch.layers import can_stack, roll_layers
from redco_new.pytorch.makers import Makers
from redco_new.pytorch.merge import merge, structure
from redco_new.pytorch.names import input_names, output_names
from redco_new.pytorch.outputs import nest
from redco_new.pytorch.variables import attributes_in
from redco_new.pytorch.sizes import Atom, Number, express


@dataclass(frozen=True)
class Probe:
    """A class, made and traced with some sizes.

    buffers: by their names, how the constructor computes them
    sizes: of the config, as the printed __init__ of the whole has them: "config.width" -> 64
    """

    instance: Instance
    traced: Traced
    sizes: Mapping[str, int | float]
    batch: int
    buffers: Mapping[str, fx.Graph]


@dataclass
class Printed:
    """A class of model.py.

    name: there
    arguments: of __init__, which are those of the PyTorch class that are read, in its order
    init, call: statements
    inputs: of __call__
    order: which of the program's inputs each of these is
    """

    name: str
    arguments: tuple[str, ...]
    init: list[str]
    call: list[ast.stmt]
    inputs: tuple[str, ...]
    order: tuple[int, ...]
    imports: set[str] = field(default_factory=set)
    docstring: str = ""
    random: bool = False
    is_whole: bool = False


class Classes:
    """Print all classes of a program, the innermost first.

    inputs: that the whole takes, whether it reads them or not
    """

    def __init__(self, probes: Sequence[Probe], inputs: Sequence[str]) -> None:
        self.probes, self.module = probes, probes[0].traced.module
        self.graphs = probes[0].traced.graphs
        self.inputs = inputs
        self.printed: dict[Hashable, Printed] = {}
        self.imports: set[str] = set()
        self.notes: list[str] = []
        self.stacked: set[str] = set()  # lists whose parts are one, with stacked parameters
        self.lengths: Mapping[str, str] = {}  # path of a list -> the field that is its length
        self.remat = False  # whether layers are in a loop that the config says what to save of
        self.drops = any(isinstance(part, nn.Dropout) for part in self.module.modules())
        self._structures: dict[str, Hashable] = {}

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
        if is_leaf(self.module, path) or isinstance(part, nn.Sequential) and path:
            return False
        return not path or not is_function(self.module, path)

    def key(self, path: str) -> Hashable:
        """Return what parts of one class have in common."""
        return type(self.part(path)), self.structure(path)

    def structure(self, path: str) -> Hashable:
        """Return the structure of a part's program, and of those that it calls."""
        if path not in self._structures:
            if is_leaf(self.module, path):
                self._structures[path] = (type(self.part(path)),)
            else:
                below = f"{path}.".removeprefix(".")
                graph = self.graphs[path]
                self._structures[path] = structure(graph, lambda t: self.structure(below + t))
        return self._structures[path]

    def of(self, path: str) -> Printed:
        """Return the class of a part, printed."""
        key = self.key(path)
        if key not in self.printed:
            printed = _Class(self, self.groups[key]).print()
            count = sum(
                other.name.rstrip("23456789") == printed.name for other in self.printed.values()
            )
            printed.name += str(count + 1) if count else ""
            self.printed[key] = printed
            self.imports |= printed.imports
        return self.printed[key]


class _Class:
    """Print the class of parts that are of one class and one program."""

    def __init__(self, classes: Classes, paths: Sequence[str]) -> None:
        self.classes, self.paths = classes, paths
        self.path = paths[0]
        self.part = classes.part(self.path)
        self.rows: list[tuple[Any, str]] = [
            (probe, path) for path in paths for probe in classes.probes
        ]
        self.init_atoms = self._init_atoms()
        self.drops: dict[str, str] = {}  # attribute -> Python that makes a Dropout
        self.makers = Makers(classes, self)

    def graph(self, probe: Probe, path: str) -> fx.Graph:
        return probe.traced.graphs[path]

    def print(self) -> Printed:
        """Return the class as it stands in model.py."""
        body = self._body()
        call = body.lines()
        init = self._init(call)
        text = "\n".join(init)
        arguments = tuple(a for a in self.names if _reads(text, a))
        order = tuple(range(len(body.names)))
        name = type(self.part).__name__
        imports = body.imports | self.makers.imports
        inputs = tuple(body.names)
        if not self.path:  # without constants, and a mask that attention says otherwise
            inputs = tuple(x for x in inputs if x in body.read or x in self.classes.inputs)
        return Printed(
            name, arguments, init, call, inputs, order, imports, self._docstring(), "rngs" in text
        )

    def _docstring(self) -> str:
        """Return where the class of PyTorch is."""
        lines, first = inspect.getsourcelines(type(self.part))
        return f"{Path(inspect.getsourcefile(type(self.part)) or '').name}:{first}."

    @property
    def names(self) -> list[str]:
        """The arguments of __init__ of the PyTorch class."""
        if not self.path:
            return ["config"]
        return list(self.classes.probes[0].instance.arguments.get(own_path(self.path), {}))

    def _init_atoms(self) -> list[Atom]:
        """Return the numbers that __init__ has: of the config, or arguments of the class."""
        rows = [
            probe.sizes if not path else probe.instance.sizes(own_path(path))
            for probe, path in self.rows
        ]
        names = [name for name in rows[0] if all(name in row for row in rows)]
        return [Atom(name, tuple(row[name] for row in rows)) for name in names]

    def _call_atoms(self) -> list[Atom]:
        """Return the numbers that __call__ can have of self: the author's attributes, then arguments."""
        atoms = []
        for name, value in vars(self.part).items():
            if isinstance(value, int | float) and not isinstance(value, bool) and name[0] != "_":
                values = tuple(
                    getattr(p.traced.module.get_submodule(own_path(path)), name)
                    for p, path in self.rows
                )
                if len(set(values)) > 1 and express(Number(values), self.init_atoms):
                    atoms.append(Atom(f"self.{name}", values, True))
        return atoms + [Atom(f"self.{atom.text}", atom.values) for atom in self.init_atoms]

    def _body(self) -> Body:
        nodes = merge([self.graph(probe, path) for probe, path in self.rows])
        nodes = roll_layers(nodes, self.part)
        reference = Reference(
            self.makers.parameter,
            self.makers.module,
            self._order,
            self.drop,
            self._layers,
            self._outputs,
        )
        batch = tuple(probe.batch for probe, _ in self.rows)
        returned = None if self.path else self._returned
        self.call_atoms = self._call_atoms()
        return Body(nodes, self.call_atoms, self._inputs(nodes), batch, reference, returned)

    def _inputs(self, nodes: Sequence[Any]) -> list[str]:
        """Return names of the program's inputs: those of the class's own forward where that is clear."""
        own = [n.name for n in self.graph(*self.rows[0]).nodes if n.op == "placeholder"]
        if not self.path:
            return own
        parameters = [
            p for p in inspect.signature(type(self.part).forward).parameters if p != "self"
        ]
        if len(own) == 1 and parameters:
            return parameters[:1]
        names: list[str] = []
        for name in input_names(self.rows[0][0].traced.graphs, self.path):
            base, number = name or "x", 1
            while (base if number == 1 else f"{base}_{number}") in names:
                number += 1
            names.append(base if number == 1 else f"{base}_{number}")
        return names

    def _outputs(self, target: str) -> list[str]:
        """Return what a part calls the values that it gives."""
        return output_names(self.classes.graphs, f"{self.path}.{target}".removeprefix("."))

    def _order(self, target: str) -> Sequence[int]:
        path = f"{self.path}.{target}".removeprefix(".")
        if self.classes.is_class(path):
            return self.classes.of(path).order
        return (0,)

    def _layers(self, target: str) -> str | None:
        """Stack the layers of a list where that is possible; return Python of what is saved of them."""
        names = self.part.get_submodule(target)._modules
        paths = [f"{self.path}.{target}.{name}".removeprefix(".") for name in names]
        if not can_stack(self.classes.module, paths, self.classes.key):
            return None
        self.makers.stacked.add(target)
        self.classes.stacked |= {
            f"{own_path(path)}.{target}".removeprefix(".") for path in self.paths
        }
        if "config" not in self.names:
            return '"everything_saveable"'
        self.classes.remat = True
        return "self.config.remat"

    def drop(self, rate: Number) -> ast.expr:
        """Return Python of a Dropout of F.dropout, which __init__ makes."""
        text = express(rate, self.init_atoms)
        maker = f"Dropout({text}, rngs=rngs)"
        name = next((key for key, value in self.drops.items() if value == maker), "")
        if not name:
            reserved = {*vars(self.part), *self.part._modules, *self.part._parameters, *self.drops}
            name = next(
                x for x in ("dropout", "drop", "dropout_2", "dropout_3") if x not in reserved
            )
            self.drops[name] = maker
            self.classes.drops = True
            self.makers.imports.add("from redco_runtime.nn.dropout import Dropout")
        return parse(f"self.{name}")

    def _returned(self, items: list[ast.expr]) -> ast.expr:
        """Return what the whole gives, nested as the class nests it."""
        return nest(self.classes.probes[0].traced.outputs, items)

    def _init(self, call: list[ast.stmt]) -> list[str]:
        """Return the statements of __init__: numbers that __call__ reads, then parts, in the class's order."""
        read = set(attributes_in(call))
        lines = []
        if "config" in read:
            lines.append("self.config = config")
            read.discard("config")
        for atom in self.call_atoms:
            name = atom.text.removeprefix("self.").split(".")[0].split("[")[0]
            if name in read and name not in self.part._modules:
                read.discard(name)
                text = (
                    name
                    if f"self.{name}" != atom.text
                    else express(Number(atom.values), self.init_atoms)
                )
                is_argument = name in self.names
                lines.append(f"self.{name} = {name if is_argument else text}")
        return lines + self.makers.lines() + [f"self.{k} = {v}" for k, v in self.drops.items()]


def _reads(text: str, name: str) -> bool:
    """Return whether Python reads a name, which is no attribute."""
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        for node in ast.walk(ast.parse(text))
    )
