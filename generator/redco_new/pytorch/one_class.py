"""One class of model.py: of all parts of a class of PyTorch that have one program."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any

from torch import fx

from redco_new.pytorch.body import Body
from redco_new.pytorch.dtypes import CONFIG, FIELD
from redco_new.pytorch.expressions import parse
from redco_new.pytorch.fields import of_fields
from redco_new.pytorch.graph import is_leaf
from redco_new.pytorch.initializers import BETWEEN
from redco_new.pytorch.paths import own_path
from redco_new.pytorch.inputs import name_inputs, order_of_inputs
from redco_new.pytorch.kind_methods import KindMethods
from redco_new.pytorch.kinds import PAIRS
from redco_new.pytorch.layers import can_stack, have_places, roll_layers, stays_in_loop
from redco_new.pytorch.makers import Makers
from redco_new.pytorch.merge import Node, merge
from redco_new.pytorch.notes import NOISE
from redco_new.pytorch.names import output_names
from redco_new.pytorch.outputs import nest
from redco_new.pytorch.pairs import split_at_encoder
from redco_new.pytorch.periods import Period
from redco_new.pytorch.rows import Row
from redco_new.pytorch.printed_class import Printed, Probe
from redco_new.pytorch.refusal import OTHERWISE, NoHidden, refuse
from redco_new.pytorch.scope import Reference
from redco_new.pytorch.sizes import Atom, Number, express
from redco_new.pytorch.statements import EVALUATES
from redco_new.pytorch.texts import DECODED, HIDDEN, NAMES, TextMethods, split_at_head
from redco_new.pytorch.variables import attributes_in


class OneClass:
    """Print the class of parts that are of one class and one program."""

    def __init__(self, classes: Any, paths: Sequence[str]) -> None:
        self.classes, self.paths = classes, paths
        self.path = paths[0]
        self.part = classes.part(self.path)
        self.rows: list[tuple[Probe, str]] = [
            (probe, path) for path in paths for probe in classes.probes
        ]
        self.init_atoms = self._init_atoms()
        self.steps: list[Atom] = []  # numbers that the author keeps, of those
        self.dtype = "config.dtype" if CONFIG in self.names else FIELD
        self.drops: dict[str, str] = {}  # attribute -> Python that makes a Dropout
        self.makers = Makers(classes, self)

    def graph(self, probe: Probe, path: str) -> fx.Graph:
        return probe.traced.graphs[path]

    def print(self) -> Printed:
        """Return the class as it stands in model.py."""
        nodes = self._nodes()
        kind = None if self.path else self.classes.kind
        splits = not self.path and (self.classes.texts or kind is not None and kind.split)
        source: list[Node] = []
        if kind is PAIRS:
            source, nodes = split_at_encoder(self.part, nodes) or ([], nodes)
            if not source:
                raise refuse("", "its encoder gives more than hidden states")
        hidden = DECODED if source else HIDDEN
        parts = split_at_head(self.part, nodes, hidden) if splits else None
        if splits and not parts:
            what = "its logits are not made of hidden states alone"
            raise NoHidden("--model", what, OTHERWISE)
        encode = self._body(source) if source else None
        body = self._body(parts[0] if parts else nodes)
        call = body.lines()
        logits = self._body(parts[1]) if parts else None
        others = [body for body in (logits, encode) if body]
        init = self._init([*call, *(line for body in others for line in body.lines())])
        text = "\n".join(init)
        first = () if CONFIG in self.names else (CONFIG,)
        every = dict.fromkeys((*first, *self.names, FIELD))
        name = type(self.part).__name__
        imports = body.imports.union(self.makers.imports, *(other.imports for other in others))
        if f"{BETWEEN}(" in text:
            imports |= {f"from redco_runtime.nn.uniform import {BETWEEN}"}
        # As max_pool, which may be a flag of the author's too.
        functions = {line.rpartition(" ")[2] for line in imports}
        arguments = tuple(a for a in every if a not in functions and _reads(text, a))
        order = self._input_order(body.names)
        inputs = tuple(body.names[i] for i in order)
        methods: Any = None
        if kind:
            two = (logits.lines() if logits else (), encode.lines() if encode else ())
            methods = KindMethods(kind, logits=two[0], source=two[1])
        elif logits:
            inputs = tuple(x for x in inputs if x in body.read)
            methods = TextMethods(inputs, logits.lines())
        elif not self.path:  # without constants, and a mask that attention says otherwise
            inputs = tuple(x for x in inputs if x in body.read or x in self.classes.inputs)
        inputs += body.sizes
        shown = (name, arguments, init, call, inputs, order, imports, self._docstring())
        return Printed(*shown, "rngs" in text, sizes=body.sizes, methods=methods)

    def _input_order(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the order in which a part takes its inputs; the whole takes them as it is called."""
        return order_of_inputs(self.part, names) if self.path else tuple(range(len(names)))

    def _docstring(self) -> str:
        """Return where the class of PyTorch is."""
        if isinstance(self.part, Period | Row):
            return str(type(self.part).__doc__)
        try:
            first = inspect.getsourcelines(type(self.part))[1]
        except OSError:
            return "As PyTorch makes it."
        return f"{Path(inspect.getsourcefile(type(self.part)) or '').name}:{first}."

    @property
    def names(self) -> list[str]:
        """The arguments of __init__ of the PyTorch class."""
        if not self.path:
            return [CONFIG]
        return list(self.classes.probes[0].instance.arguments.get(own_path(self.path), {}))

    def _init_atoms(self) -> list[Atom]:
        """Return the numbers that __init__ has: of the config, or arguments of the class; of an object those that the config has."""
        rows = [
            probe.sizes if not path else probe.instance.sizes(own_path(path))
            for probe, path in self.rows
        ]
        names = [name for name in rows[0] if all(name in row for row in rows)]
        atoms = [Atom(name, tuple(row[name] for row in rows)) for name in names]
        return of_fields(atoms, [probe.sizes for probe, _ in self.rows]) if self.path else atoms

    def _call_atoms(self) -> list[Atom]:
        """Return the numbers that __call__ can have of self: the author's attributes, then arguments."""
        atoms, self.steps = [], []
        for name, value in vars(self.part).items():
            if isinstance(value, int | float) and not isinstance(value, bool) and name[0] != "_":
                values = tuple(
                    getattr(p.traced.module.get_submodule(own_path(path)), name)
                    for p, path in self.rows
                )
                is_number = all(isinstance(x, int | float) for x in values)  # None of some layers
                if is_number and len(set(values)) > 1 and (text := self.init_text(values)):
                    atoms.append(Atom(f"self.{name}", values, True))
                    self.steps.append(Atom(f"({text})", values))
        return atoms + [Atom(f"self.{atom.text}", atom.values) for atom in self.init_atoms]

    def init_text(self, values: tuple[int | float, ...]) -> str | None:
        """Return Python of a number in __init__; where its arguments alone do not make it, by what the author makes of them on the way."""
        number = Number(values)
        return express(number, self.init_atoms) or express(number, [*self.init_atoms, *self.steps])

    def _nodes(self) -> list[Node]:
        nodes = merge([self.graph(probe, path) for probe, path in self.rows])
        return roll_layers(nodes, self.part)

    def _body(self, nodes: Sequence[Node]) -> Body:
        reference = Reference(
            self.makers.parameter,
            self.makers.module,
            self._order,
            self.drop,
            self._layers,
            self._outputs,
            self._leaf,
            "self.dtype",
            self.noise,
            self._sizes,
        )
        batch = tuple(probe.batch for probe, _ in self.rows)
        plain = not (self.path or self.classes.texts or self.classes.kind)
        returned = self._returned if plain else None
        self.call_atoms = self._call_atoms()
        names = self._inputs(nodes)
        first = self._input_order(names)
        casts = not self.path and nodes[0].target not in (HIDDEN, DECODED)
        outer = self._outer() if self.path else ()
        return Body(nodes, self.call_atoms, names, batch, reference, returned, first, casts, outer)

    def _outer(self) -> list[Atom]:
        """Return the dims of the inputs of the whole, in each probe and instance."""
        return [
            Atom(letter, tuple(probe.dims[letter] for probe, _ in self.rows))
            for letter in self.rows[0][0].dims
        ]

    def _sizes(self, target: str) -> list[Atom]:
        """Return the dims of the inputs of the whole that a part is told."""
        path = f"{self.path}.{target}".removeprefix(".")
        names = self.classes.of(path).sizes if self.classes.is_class(path) else ()
        return [atom for atom in self._outer() if atom.text in names]

    def _inputs(self, nodes: Sequence[Node]) -> list[str]:
        """Return names of the program's inputs: those of the class's own forward where that is clear."""
        if not self.path:
            return [self._printed_name(n.target) for n in nodes if n.kind == "input"]
        return name_inputs(self.part, self.rows[0][0].traced.graphs, self.path)

    def _printed_name(self, name: str) -> str:
        """Return what an input of the whole is called in model.py."""
        if self.classes.texts:
            return NAMES.get(name, name)
        kind = self.classes.kind
        return kind.inputs.get(name, name) if kind and kind.split else name

    def _outputs(self, target: str) -> list[str]:
        """Return what a part calls the values that it gives."""
        return output_names(self.classes.graphs, f"{self.path}.{target}".removeprefix("."))

    def _leaf(self, target: str) -> Any:
        """Return the layer of torch.nn that a part is, or None."""
        path = f"{self.path}.{target}".removeprefix(".")
        return self.classes.part(path) if is_leaf(self.classes.module, path) else None

    def _order(self, target: str) -> Sequence[int]:
        path = f"{self.path}.{target}".removeprefix(".")
        if self.classes.is_class(path):
            return self.classes.of(path).order
        return (0,)

    def _layers(self, target: str) -> str | None:
        """Stack the layers of a list where that is possible; return Python of how they are run, first of what is saved of them."""
        names = self.part.get_submodule(target)._modules
        paths = [f"{self.path}.{target}.{name}".removeprefix(".") for name in names]
        if not can_stack(self.classes.module, paths, self.classes.key):
            return None
        read = self.classes.of(paths[0]).arguments if self.classes.is_class(paths[0]) else ()
        if have_places(self.rows[0][0].instance.arguments, paths, read):
            return None
        self.makers.stacked.add(target)
        self.classes.stacked |= {
            f"{own_path(path)}.{target}".removeprefix(".") for path in self.paths
        }
        self.classes.remat = True
        return "self.config.remat" + stays_in_loop(paths[0], self.classes.graphs)

    def drop(self, rate: Number) -> ast.expr:
        """Return Python of a Dropout of F.dropout, which __init__ makes."""
        return self._drawn_by("dropout", f"Dropout({express(rate, self.init_atoms)}, rngs=rngs)")

    def noise(self, kind: str) -> ast.expr:
        """Return Python of a Noise, which __init__ makes."""
        self.classes.note(NOISE.format(name=type(self.part).__name__))
        return self._drawn_by("noise", f"Noise({kind!r}, rngs=rngs)")

    def _drawn_by(self, module: str, maker: str) -> ast.expr:
        """Return Python of what draws, of a module of the runtime; several of one maker are one."""
        name = next((key for key, value in self.drops.items() if value == maker), "")
        if not name:
            numbers = {re.split(r"\W", atom.text)[0] for atom in self.init_atoms}  # self.NAME, too
            reserved = {*vars(self.part), *self.part._modules, *self.part._parameters}
            names = chain((module, module.removesuffix("out")), (f"{module}_{i}" for i in count(2)))
            name = next(x for x in names if x not in reserved | numbers | {*self.drops})
            self.drops[name] = maker
            self.classes.drops = True
            what = maker.partition("(")[0]
            self.makers.imports.add(f"from redco_runtime.nn.{module} import {what}")
        return parse(f"self.{name}")

    def _returned(self, items: list[ast.expr]) -> ast.expr:
        """Return what the whole gives, nested as the class nests it."""
        return nest(self.classes.probes[0].traced.outputs, items)

    def _init(self, call: list[ast.stmt]) -> list[str]:
        """Return the statements of __init__: numbers that __call__ reads, then parts, in the class's order."""
        read = set(attributes_in(call))
        parts = {*self.part._modules, *self.part._parameters, *self.part._buffers}
        lines = []
        if CONFIG in read:
            lines.append("self.config = config")
            read.discard(CONFIG)
        if FIELD in read:
            lines.append(f"self.dtype = {self.dtype}")
            read.discard(FIELD)
        if EVALUATES in read:
            lines.append(f"self.{EVALUATES} = False")
            read.discard(EVALUATES)
        for atom in self.call_atoms:
            name = atom.text.removeprefix("self.").split(".")[0].split("[")[0]
            if name in read and name not in parts:
                read.discard(name)
                text = name if f"self.{name}" != atom.text else self.init_text(atom.values)
                is_argument = name in self.names
                lines.append(f"self.{name} = {name if is_argument else text}")
        return lines + self.makers.lines() + [f"self.{k} = {v}" for k, v in self.drops.items()]


def _reads(text: str, name: str) -> bool:
    """Return whether Python reads a name, which is no attribute."""
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        for node in ast.walk(ast.parse(text))
    )
