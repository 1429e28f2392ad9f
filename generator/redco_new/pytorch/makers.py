"""The statements of an __init__: how each part and parameter of a class is made, and how it is read."""

from __future__ import annotations

import ast
from typing import Any

from torch import fx, nn

from redco_new.errors import RedcoError
from redco_new.pytorch.lists import is_list, is_numbered, is_sequential
from redco_new.pytorch.body import Body
from redco_new.pytorch.buffers import tensors_of
from redco_new.pytorch.dtypes import COMPUTE, CONFIG, FIELD
from redco_new.pytorch.experts import PAIR, PARTS, is_served
from redco_new.pytorch.expressions import parse, show
from redco_new.pytorch.graph import access
from redco_new.pytorch.paths import own_path
from redco_new.pytorch.leaves import LEAVES, Leaf, is_usual, leaf_of, show_dict
from redco_new.pytorch.merge import merge
from redco_new.pytorch.refusal import UNSERVED, refuse
from redco_new.pytorch.scope import Own, Parts, Reference
from redco_new.pytorch.rows import attribute
from redco_new.pytorch.setting import argument_of
from redco_new.pytorch.starts import Starts
from redco_new.pytorch.ties import is_tied, tied_names
from redco_new.pytorch.variables import in_one, within
from redco_new.pytorch.windows import Window


class Makers(Starts):
    """Print the parts of one class."""

    def __init__(self, classes: Parts, own: Own) -> None:
        super().__init__(classes, own)
        self.imports: set[str] = set()
        self.stacked: set[str] = set()  # lists of which all parts are one, with stacked parameters
        self._read: set[str] = set()  # names of parts and parameters that the body reads
        self._targets: set[str] = set()  # the same, as whole paths
        self._before: list[str] = []  # statements that the next one needs

    def parameter(self, target: str) -> ast.expr:
        """Return Python that reads a parameter or buffer."""
        own = self._own.path
        whole = f"{own_path(own)}.{target}".removeprefix(".")
        first = tied_names(self._classes.module).get(whole, whole)
        if own and not first.startswith(f"{own_path(own)}."):
            raise refuse(
                own, f"{whole} is {first}, which it does not hold", "hand that on as an argument"
            )
        target = first.removeprefix(f"{own_path(own)}.") if own else first
        path, _, name = target.rpartition(".")
        part = self._part(path)
        self._read_at(target)
        leaf = LEAVES.get(type(part))
        if leaf is None:
            item = f"[{name}]" if isinstance(part, nn.ParameterList) else f".{name}"
            return parse(f"self{access(self._own.part, path)}{item}[...]")
        stored, order = leaf.stored[name]
        text = f"self{access(self._own.part, path)}.{stored}[...]"
        if not order:
            return parse(text)
        back = tuple(order.index(i) for i in range(len(order)))
        return parse(f"{text}.T" if order == (1, 0) else f"{text}.transpose({back})")

    def module(self, target: str) -> ast.expr:
        """Return Python for a part that is called."""
        self._read_at(target)
        return parse(f"self{access(self._own.part, target)}")

    def _read_at(self, target: str) -> None:
        """Record that the body reads what is at a path."""
        self._read.add(target.split(".")[0])
        self._targets.add(target)

    def lines(self) -> list[str]:
        """Return the statements that make what the body reads, in the class's order."""
        part = self._own.part
        for target in (x for _, path in self._own.rows for x in self._classes.read_above(path)):
            self._read_at(target)
        lines: list[str] = []
        for name in sorted((*part._parameters, *tensors_of(part)), key=self._follows):
            own = [x for x, of in PARTS.items() if of == name] if is_served(part) else [name]
            if self._read.issuperset(own):
                text = self._parameter(name)
                lines += [*self._first_lines(), *(f"self.{x} = {text}" for x in own)]
        if is_numbered(part):
            items = [(x, self._entry(x, one)) for x, one in part._modules.items()]
            return [*lines, *self._first_lines(), f"self.layers = {self._list('', items)}"]
        for name in part._modules:
            if name in self._read:
                own = self._stack(name) if name in self.stacked else []
                own = own or [f"self.{attribute(part, name)} = {self._maker(name)}"]
                lines += [*self._first_lines(), *own]
        return lines

    def _first_lines(self) -> list[str]:
        """Return the statements that what was printed last needs before it."""
        first, self._before = self._before, []
        return first

    def _stack(self, name: str) -> list[str]:
        """Return the statements that make layers, stacked."""
        count, one = self._stacked(name)
        return [
            f"create = nnx.vmap(lambda rngs: {one})",
            f"self.{name} = nnx.split_rngs(splits={count})(create)(rngs)",
        ]

    def _stacked(self, name: str) -> tuple[str, str]:
        """Return Python of how many layers are stacked, and of one."""
        count = len(self._own.part.get_submodule(name)._modules)
        lists = {f"{own_path(own)}.{name}".strip(".") for _, own in self._own.rows}
        texts = {self._classes.lengths.get(path) for path in lists}
        text = texts.pop() if len(texts) == 1 else None
        return str(text or count), self._maker(f"{name}.0")

    def _reference(self) -> Reference:
        own = self._own
        return Reference(self.parameter, self.module, lambda t: (0,), own.drop, dtype=own.dtype)

    def _maker(self, path: str) -> str:
        """Return Python that makes a part."""
        part = self._part(path)
        whole = f"{self._own.path}.{path}".removeprefix(".")
        if leaf := leaf_of(part):
            if is_tied(self._classes.module, own_path(whole)):
                return show_dict([*self._own_parameters(path, leaf.stored, self._targets)])
            return self._leaf(path, leaf)
        if path in self.stacked:
            count, one = self._stacked(path)
            return f"nnx.split_rngs(splits={count})(nnx.vmap(lambda rngs: {one}))(rngs)"
        if is_list(part):
            items = [(x, self._entry(f"{path}.{x}", one)) for x, one in part._modules.items()]
            if isinstance(part, nn.ModuleList):
                return self._list(path, items)
            return show_dict([(name, text) for name, text in items if text != "None"])
        if is_sequential(part):
            return (
                f"nnx.Sequential({', '.join(self._element(f'{path}.{n}') for n in part._modules)})"
            )
        if not self._classes.graphs.get(whole, fx.Graph()).nodes:  # its parts alone are called
            paths = {x: f"{path}.{x}" for x in (*part._parameters, *tensors_of(part))}
            texts = {x: self._parameter(to) for x, to in paths.items() if to in self._targets}
            if isinstance(part, nn.ParameterList):
                return self._list(path, [(x, texts.get(x, "None")) for x in paths])
            names = [name for name in part._modules if self._is_read(f"{path}.{name}")]
            parts = [(name, self._maker(f"{path}.{name}")) for name in names]
            return show_dict([*texts.items(), *parts])
        printed = self._classes.of(whole)
        arguments = self._arguments(path, printed.arguments)
        if printed.random:
            arguments.append("rngs=rngs")
        return f"{printed.name}({', '.join(arguments)})"

    def _entry(self, path: str, part: nn.Module | None) -> str:
        """Return Python of an entry of a list or a dict of parts; "None" of a function, which stands where it is called."""
        whole = f"{self._own.path}.{path}".removeprefix(".")
        return "None" if part is None or self._classes.is_expression(whole) else self._maker(path)

    def _is_read(self, path: str) -> bool:
        return any(f"{target}.".startswith(f"{path}.") for target in self._targets)

    def _list(self, path: str, items: list[tuple[str, str]]) -> str:
        texts = [text for _, text in items]
        if len(texts) > 1 and len(set(texts)) == 1:
            return f"nnx.List([{texts[0]} for _ in range({len(texts)})])"
        return f"nnx.List([{', '.join(texts)}])"

    def _element(self, path: str) -> str:
        """Return Python of an entry of a Sequential: a part, or the function that it is."""
        whole = f"{self._own.path}.{path}".removeprefix(".")
        if not self._classes.is_expression(whole):
            return self._maker(path)
        return self._function(path, whole)

    def _function(self, path: str, whole: str) -> str:
        if whole not in self._classes.graphs:  # nn.Identity
            return "lambda x: x"
        graphs = [p.traced.graphs[f"{own}.{path}".removeprefix(".")] for p, own in self._own.rows]
        batch = tuple(probe.batch for probe, _ in self._own.rows)
        body = Body(merge(graphs), self._own.init_atoms, ["x"], batch, self._reference())
        self.imports |= body.imports
        lines = in_one(within(body.lines(), "x"))
        last = lines[-1]
        if len(lines) > 1 or not isinstance(last, ast.Return) or last.value is None:
            raise refuse("", f"{whole} is more than one expression")
        value = last.value
        if isinstance(value, ast.Call) and not value.keywords and len(value.args) == 1:
            function = show(value.func)
            if show(value.args[0]) == "x" and "x" not in function.split("."):
                return function
        return f"lambda x: {show(value)}"

    def _leaf(self, path: str, leaf: Leaf) -> str:
        """Return Python that makes a layer of Flax."""
        layers: list[Any] = self._parts(path)
        if unserved := leaf.fits(layers[0]):
            what = f"{type(layers[0]).__name__} with {unserved} has no rule"
            raise refuse(f"{self._own.path}.{path}".strip("."), what)
        maker, line, starts = self._start(path, leaf, layers)
        if line:
            self.imports.add(line)
        flags = leaf.flags(layers[0])
        arguments = []
        for position, (name, theirs) in enumerate(leaf.arguments.items()):
            values = [theirs(x) if callable(theirs) else getattr(x, theirs) for x in layers]
            if name in flags or is_usual(name, values):
                continue
            text = self.expression(path, name, values)
            arguments.append(text if position < leaf.positional else f"{name}={text}")
        arguments += [f"{name}={value!r}" for name, value in flags.items()]
        if leaf.computes and any(x.dtype == COMPUTE for x in layers[0].parameters()):
            arguments.append(f"dtype={self._own.dtype}")
        return f"{maker}({', '.join([*arguments, *starts, 'rngs=rngs'])})"

    def _arguments(self, path: str, names: tuple[str, ...]) -> list[str]:
        """Return the arguments that make a part of a class of model.py, as Python."""
        texts = []
        for name in names:
            if name == FIELD:
                texts.append(f"dtype={self._own.dtype}")
                continue
            rows = [
                p.instance.arguments[f"{own_path(own)}.{path}".strip(".")]
                for p, own in self._own.rows
            ]
            if name == CONFIG and name not in rows[0]:  # its author has no such argument
                texts.append(name)
                continue
            values = [row[name] for row in rows]
            text = self._object(name, values) or self.expression(path, name, values)
            by_us = isinstance(values[0], Window)  # by us: its author has no such argument
            texts.append(f"{name}={text if any(values) else None}" if by_us else text)
        return texts

    def _object(self, name: str, values: list[Any]) -> str:
        """Return Python for an object, as a config: an argument of the class itself, or an attribute of one."""
        if isinstance(values[0], int | float | str | tuple | list) or values[0] is None:
            return ""
        if not self._own.path:
            return CONFIG
        arguments = self._own.rows[0][0].instance.arguments
        if key := argument_of(values[0], arguments[own_path(self._own.path)]):
            return key
        if argument_of(values[0], arguments[""]):  # as of what is made before, and given in a list
            return CONFIG
        raise refuse(self._own.path, f"its {name} is none of its arguments")

    def _parameter(self, name: str) -> str:
        """Return Python that makes a parameter, or a buffer, at a path."""
        path, _, own = name.rpartition(".")
        parts = self._parts(path)
        if own not in parts[0]._parameters and not any(self._draws(name)):
            return f"nnx.Variable({self._buffer(name)})"
        arrays = [getattr(part, own) for part in parts]
        shapes = [tuple(x.shape) for x in arrays]
        if is_served(parts[0]):  # inputs first, and one of a pair
            shapes = [(e, i, o // 2 if name == PAIR else o) for e, o, i in shapes]
        if computed := self._computed(name):
            kind = "Param" if arrays[0].requires_grad else "Variable"
            return f"nnx.{kind}({computed})"
        return self._drawn(name, shapes, self.expression(name, "shape", shapes))

    def _computed(self, name: str) -> str:
        """Return Python of what a parameter begins as, where the class computes it of its sizes; else ""."""
        if any(self._draws(name)) or not all(self._own_buffers(name)):
            return ""
        before = [*self._before]
        try:
            return self._buffer(name)
        except (RedcoError, *UNSERVED):  # it is none of these: it is drawn
            self._before = before
            return ""

    def _buffer(self, name: str) -> str:
        """Return Python that computes a buffer; statements that it needs stand before."""
        graphs = [graph for graph in self._own_buffers(name) if graph]
        if len(graphs) < len(self._own.rows):
            raise refuse("", f"nothing says how its buffer {name} is computed")
        body = Body(merge(graphs), self._own.init_atoms, [], (), self._reference())
        self.imports |= body.imports
        *before, last = body.lines()
        self._before += [ast.unparse(ast.fix_missing_locations(x)) for x in before]
        assert isinstance(last, ast.Return) and last.value is not None
        return show(last.value)
