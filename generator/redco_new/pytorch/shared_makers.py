"""Layers that a model makes in one way but for their sizes, as most of its products: one function makes them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from redco_new.pytorch.leaves import LEAVES
from redco_new.pytorch.printed_class import Printed

LEAST = 3  # layers that are worth a function
LONG = 40  # characters of what they have in common, which would not stand in one line with the rest
SCOPE = {"config", "rngs", "nnx", "jnp", "jax"}  # that such a function knows
SIZES = {leaf.maker: [*leaf.arguments][: leaf.positional] for leaf in LEAVES.values()}


@dataclass(frozen=True)
class Way:
    """How a layer is made.

    maker: Python that names it in Flax. sizes: how many of these it is given. options: the rest, as Python
    """

    maker: str
    sizes: int
    options: str

    @property
    def function(self) -> str:
        """The function that makes such layers: _layer_norm of nnx.LayerNorm."""
        name = self.maker.rpartition(".")[2]
        return "_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()

    def __str__(self) -> str:
        sizes = ", ".join(SIZES[self.maker][: self.sizes])
        call = f"{self.maker}({sizes}, {self.options})"
        return f"def {self.function}(config, {sizes}, rngs):\n    return {call}\n"


def share_makers(classes: Sequence[Printed]) -> tuple[list[list[str]], str]:
    """Return the statements of each class's constructor, and the functions that these call."""
    inits = [[ast.parse(line) for line in one.init] for one in classes]
    ways = Counter(way for init in inits for tree in init for _, way in _ways(tree))
    shared: dict[str, Way] = {}
    for way, count in ways.most_common():
        if count >= LEAST:
            shared.setdefault(way.maker, way)
    for tree in (tree for init in inits for tree in init):
        for call, way in [*_ways(tree)]:
            if shared.get(way.maker) == way:
                call.func, call.keywords = ast.Name(way.function), []
                call.args = [ast.Name("config"), *call.args, ast.Name("rngs")]
    functions = "\n\n".join(map(str, sorted(shared.values(), key=lambda way: way.function)))
    return [[ast.unparse(tree) for tree in init] for init in inits], functions


def _ways(tree: ast.AST) -> Iterator[tuple[ast.Call, Way]]:
    """Yield the calls that make layers of options that are long, and that all classes know."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and (maker := ast.unparse(call.func)) in SIZES:
            options = ", ".join(map(ast.unparse, call.keywords))
            names = {x.id for y in call.keywords for x in ast.walk(y) if isinstance(x, ast.Name)}
            if len(options) > LONG and {"config", "rngs"} <= names <= SCOPE and call.args:
                yield call, Way(maker, len(call.args), options)
