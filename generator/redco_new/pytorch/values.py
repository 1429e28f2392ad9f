"""Values of a program as Python: arrays by their variables, numbers and shapes by the sizes of the class."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import torch

from redco_new.pytorch.dims import number_text
from redco_new.pytorch.dtypes import COMPUTE, DTYPES, cast
from redco_new.pytorch.expressions import parse, sequence
from redco_new.pytorch.merge import WRITES, Default, Node
from redco_new.pytorch.refusal import Unsaid
from redco_new.pytorch.scope import Reference
from redco_new.pytorch.sizes import Atom, Number, exactly, express


class Values:
    """What rules ask of a body.

    atoms: what numbers can be made of, the author's names first
    outer: the same where none of these makes one: dims of the inputs of the whole
    """

    def __init__(
        self, atoms: Sequence[Atom], reference: Reference, outer: Sequence[Atom] = ()
    ) -> None:
        self.imports: set[str] = set()
        self._atoms, self._outer, self._reference = atoms, outer, reference
        self._env: dict[Node, ast.expr] = {}
        self._written = set[Node]()  # steps of what is written into buffers alone
        self._for_write = False  # whether the step that is printed is one of these
        self._measurable: list[Node] = []  # arrays that are computed, and whose dims may be named

    def value(self, x: Any) -> ast.expr:
        """Return an argument as Python."""
        if isinstance(x, Node) and x.kind == "parameter" and x not in self._env:
            written = self._for_write and any(user.target == WRITES for user in x.users)
            as_stored = x.dtype != COMPUTE or written
            return self.stored(x) if as_stored else cast(self.stored(x), self.value(COMPUTE))
        if isinstance(x, Node) and x.target == WRITES and self._for_write:
            return self.stored(x.arguments["self"])
        if isinstance(x, Node):
            return self._env[x]
        if isinstance(x, Default):
            return self.value(x.value)
        if isinstance(x, Number):
            try:
                text = number_text(x, self._atoms, self._outer, self._reference.dtype)
            except Unsaid:
                self._measure(x)
                raise
            if "_dim_" in text and "//" in text:  # of an input of this length, as of no other
                self._measure(x)
            return parse(text)
        if isinstance(x, list):
            return sequence([self.value(item) for item in x])
        if isinstance(x, torch.dtype):
            return parse(self._reference.dtype if x == COMPUTE else DTYPES[x])
        return ast.Constant(x)

    def shape(self, sizes: list[Any], base: Node | None) -> list[ast.expr]:
        """Return sizes of a new shape; at most one is -1, where `base` is reshaped."""
        texts = [exactly(n, self._atoms) if isinstance(n, Number) else None for n in sizes]
        if base is not None and texts.count(None) == 1 and "-1" not in texts:
            texts[texts.index(None)] = "-1"
        for i, number in enumerate(sizes):
            if texts[i] is None:
                text = exactly(number, self._outer) or express(number, self._atoms)
                texts[i] = text or self._by_shape(number, base)
        if texts.count(None) == 1 and "-1" not in texts and base is not None:
            texts[texts.index(None)] = "-1"
        for i, number in enumerate(sizes):
            if texts[i] is None:
                texts[i] = express(number, self._outer)
        if None in texts:
            self._measure(sizes[texts.index(None)])
            rows = [getattr(size, "values", size) for size in sizes]
            what = f"a shape, {rows}, follows from no size of the class"
            raise Unsaid("--model", what, rows[texts.index(None)])
        return [parse(text) for text in texts if text is not None]

    def stored(self, node: Node) -> ast.expr:
        """Return a parameter as Python, in the dtype that it is stored in."""
        return self._reference.parameter(node.target)

    def drop(self, rate: Number) -> ast.expr:
        """Return Python of a Dropout, which __init__ makes."""
        return self._reference.drop(rate)

    def noise(self, kind: str) -> ast.expr:
        """Return Python of what draws numbers, which __init__ makes."""
        return self._reference.noise(kind)

    def use(self, line: str) -> None:
        """Add an import."""
        self.imports.add(line)

    def _measure(self, number: Number) -> None:
        """Raise NeedsName for an array that is as long along a dim as a number says, and computed before."""
        for node in self._measurable:
            for d, n in enumerate(node.dims or ()):
                if n.values == number.values:
                    raise NeedsName(node, d)

    def _by_shape(self, number: Number, base: Node | None) -> str | None:
        """Return a size by the shape of the array that is reshaped, which has a name then."""
        if base is None or base.dims is None:
            return None
        atoms = [Atom(f"_x.shape[{i}]", n.values) for i, n in enumerate(base.dims)]
        text = express(number, atoms)
        if text is None:
            return None
        variable = self.value(base)
        if not isinstance(variable, ast.Name):
            raise NeedsName(base)
        return text.replace("_x.", f"{variable.id}.")


class NeedsName(Exception):
    """Say that a step is a statement of its own, since its shape is asked for. dim: that which needs a name"""

    def __init__(self, node: Node, dim: int | None = None) -> None:
        self.node, self.dim = node, dim


def steps_of_writes(nodes: Sequence[Node]) -> set[Node]:
    """Return the steps of what is written into buffers alone: of these as stored, since what moves slowly stands still in bfloat16."""
    steps = set[Node]()
    for node in reversed(nodes):
        if node.users and all(x.target == WRITES or x in steps for x in node.users):
            steps.add(node)
    return steps
