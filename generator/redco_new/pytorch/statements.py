"""Statements of a printed body that need names: variables, dims of arrays, what a call writes into buffers."""

from __future__ import annotations

import ast

from redco_new.pytorch.dims import letter
from redco_new.pytorch.dtypes import COMPUTE, cast
from redco_new.pytorch.expressions import fill, parse, show
from redco_new.pytorch.merge import Node
from redco_new.pytorch.sizes import Atom
from redco_new.pytorch.step_expressions import Expressions
from redco_new.pytorch.variables import assign, hint_of, name_node, safe_name

EVALUATES = "use_running_average"  # of modules, which train() and eval() of Flax set


class Statements(Expressions):
    """Print what needs the names that a body has so far."""

    _statements: list[ast.stmt]
    _batch: tuple[int, ...]
    _last: dict[Node, int]  # the place of the last step that may read each value
    _holders: dict[str, Node]  # variable -> what it is
    _lengths: dict[str, Atom]  # variable -> the dim that it is
    _dims: dict[Node, set[int]]  # dims that have names
    _functions: set[str]  # of the runtime, which a variable would hide

    def write(self, place: int, node: Node) -> None:
        """Print what a call in training writes into a buffer; what was read of it before, and is used after, has a name."""
        buffer, value = node.arguments["self"], node.arguments["src"]
        stored = show(self.stored(buffer))
        if self._last[buffer] > place:
            self._env[buffer] = self.value(buffer)
        for other, x in [*self._env.items()]:
            if self._last.get(other, 0) > place and stored in show(x):
                name = self.variable(place, other, hint_of(other, buffer.target.rpartition(".")[2]))
                self._statements.append(assign(name_node(name), x))
                self._env[other] = name_node(name)
        new = self.value(value)
        if node.dtype == COMPUTE and stored not in show(new):
            new = cast(new, parse("jnp.float32"))
        last = self._statements[-1] if self._statements else None
        if not isinstance(last, ast.If):
            last = ast.If(parse(f"not self.{EVALUATES}"), [], [])
            self._statements.append(last)
        last.body.append(assign(parse(stored), new))
        read = parse(stored)
        self._env[node] = cast(read, self.value(COMPUTE)) if node.dtype == COMPUTE else read

    def name_dims(self, node: Node) -> None:
        """Print `S = x.shape[1]` of each dim of an array that numbers after it are made of."""
        for d in sorted(self._dims.get(node, ())):
            dims, outer = node.dims or (), {x.text for x in self._outer}
            name = letter(d, dims, self._batch, {*self._holders, *self._lengths, *outer})
            size = fill("x.shape[i]", x=self._env[node], i=ast.Constant(d))
            self._statements.append(assign(name_node(name), size))
            self._lengths[name] = Atom(name, dims[d].values)
            self._atoms = [*self._atoms, self._lengths[name]]

    def variable(self, place: int, node: Node, hint: str, others: tuple[str, ...] = ()) -> str:
        """Return a name for a value: the author's, which may be that of a value no longer read."""
        own = safe_name(hint)
        name = own = f"{own}_" if own in self._functions else own
        number = 1
        while name in others or self._is_read_after(place, name):
            number += 1
            name = f"{own}_{number}"
        self._holders[name] = node
        return name

    def _is_read_after(self, place: int, name: str) -> bool:
        if name in self._lengths:
            return True
        return name in self._holders and self._last.get(self._holders[name], 0) > place
