"""A sum over passes, as many as the rows of experts need: one, unless most tokens choose the experts of one device.

So a device has room for little more than its share of rows, and no token is left out.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

PyTree = Any
SCOPE = "seldom"  # what a compiled program calls what it does where one pass is not enough
Run = Callable[
    ..., jax.Array
]  # (number of a pass, fixed, *arrays) -> what the rows of that pass add


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def in_passes(run: Run, count: jax.Array, fixed: PyTree, *arrays: PyTree) -> jax.Array:
    """Return the sum of `run` over `count` passes, differentiable by `arrays`.

    A loop without a length has no derivative: here each pass has its own, and their sums are float32.
    """
    return _forward(run, count, fixed, *arrays)[0]


def _forward(run: Run, count: jax.Array, fixed: PyTree, *arrays: PyTree) -> tuple[jax.Array, Any]:
    x, back = jax.vjp(functools.partial(run, 0, fixed), *arrays)

    def more(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(1, count, lambda i, x: x + run(i, fixed, *arrays), x)

    with jax.named_scope(SCOPE):
        x = jax.lax.cond(count > 1, more, lambda x: x, x)
    return x, (back, count, fixed, arrays)


def _backward(run: Run, saved: Any, grads: jax.Array) -> tuple[Any, ...]:
    back, count, fixed, arrays = saved

    def more(first: PyTree) -> PyTree:
        def add(i: jax.Array, sums: PyTree) -> PyTree:
            own = jax.vjp(functools.partial(run, i, fixed), *arrays)[1](grads)
            return jax.tree.map(jnp.add, sums, own)

        wide = jax.tree.map(lambda x: x.astype(jnp.float32), first)
        sums = jax.lax.fori_loop(1, count, add, wide)
        return jax.tree.map(lambda x, like: x.astype(like.dtype), sums, first)

    own = back(grads)
    with jax.named_scope(SCOPE):
        return None, None, *jax.lax.cond(count > 1, more, lambda x: x, own)


in_passes.defvjp(_forward, _backward)
