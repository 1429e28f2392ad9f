"""Random models: a chain of blocks over a residual stream, in any names and any layout of kernels.

Shapes as in zoo.py. A block is a function (weights, x_BSD, memory_BSD) -> x_BSD; `weights` is
index -> array, in the shapes that the block's code wants. How the parameters are stored (their
names, the order of their dims, layers stacked or apart) is a Style, which the layout must follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

B, S = 4, 6
Shape = tuple[int, ...]
Weights = dict[int, Any]
Block = Callable[[Weights, jax.Array, jax.Array], jax.Array]
Forward = Callable[[Any, Any], jax.Array]


@dataclass
class Maker:
    """Draws blocks, and collects the shapes of the parameters that they need.

    choose: takes one of several things.
    layers: of a parameter that a loop runs over, how many; the shape is that of one layer.
    grouped: whether to draw grouped convolutions.
    """

    choose: Callable[[tuple[Any, ...]], Any]
    grouped: bool = True
    shapes: list[Shape] = field(default_factory=list)
    layers: dict[int, int] = field(default_factory=dict)

    def pick(self, *choices: Any) -> Any:
        return self.choose(choices)

    def weight(self, *shape: int) -> int:
        """The index of a new parameter."""
        self.shapes.append(shape)
        return len(self.shapes) - 1


@dataclass(frozen=True)
class Program:
    """A model before its parameters have names.  run: (weights, batch) -> output."""

    shapes: tuple[Shape, ...]
    layers: dict[int, int]
    run: Forward
    batch: dict[str, jax.ShapeDtypeStruct]


@dataclass(frozen=True)
class Style:
    """How a program's parameters are stored.

    names: of each parameter.  orders: for each, the dims of its shape in the order in memory.
    stacked: layers of a loop are one array, and scanned; otherwise they are a list, and unrolled.
    """

    names: tuple[str, ...]
    orders: tuple[Shape, ...]
    stacked: bool = True


@st.composite
def styles(draw: Callable[..., Any], program: Program, stacked: bool = True) -> Style:
    count = len(program.shapes)
    numbers = draw(st.lists(st.integers(0, 10**6), min_size=count, max_size=count, unique=True))
    orders = (draw(st.permutations(range(len(shape)))) for shape in program.shapes)
    return Style(tuple(f"p{i}" for i in numbers), tuple(map(tuple, orders)), stacked)


def written(program: Program, style: Style) -> tuple[Forward, dict[str, Any]]:
    """(forward, params) of a program in a style."""
    indices = range(len(program.shapes))

    def stored(i: int) -> Any:
        shape = tuple(program.shapes[i][dim] for dim in style.orders[i])
        count = program.layers.get(i)
        if count and style.stacked:
            return jax.ShapeDtypeStruct((count, *shape), jnp.float32)
        one = jax.ShapeDtypeStruct(shape, jnp.float32)
        return [one] * count if count else one

    def logical(i: int, array: jax.Array) -> jax.Array:
        stacked = i in program.layers and style.stacked
        order = (0, *(dim + 1 for dim in style.orders[i])) if stacked else style.orders[i]
        return jnp.transpose(array, sorted(range(len(order)), key=order.__getitem__))

    def forward(params: dict[str, Any], batch: dict[str, jax.Array]) -> jax.Array:
        weights = {
            i: jax.tree.map(lambda w, i=i: logical(i, w), params[style.names[i]]) for i in indices
        }
        return program.run(weights, batch)

    return forward, {style.names[i]: stored(i) for i in indices}


def by_index(program: Program, style: Style, tree: dict[str, Any]) -> list[list[Any]]:
    """What a plan says of each dim of each parameter, in the order of the program's shapes.

    tree: name -> one entry a dim, of one parameter or of a list of layers, which must be alike.
    """
    found = []
    for i, order in enumerate(style.orders):
        entry = tree[style.names[i]]
        if i in program.layers and style.stacked:
            entry = entry[1:]
        elif i in program.layers:
            assert all(layer == entry[0] for layer in entry), entry
            entry = entry[0]
        found.append([entry[order.index(dim)] for dim in range(len(order))])
    return found
