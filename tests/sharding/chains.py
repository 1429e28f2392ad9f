"""Random models from random blocks: chains with residual additions, loops over layers, two ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from sharding.blocks import LEAVES, normed
from sharding.programs import B, Block, Maker, Program, S, Weights

WIDTHS = (4, 6, 8, 12, 16, 39)
VOCABULARIES = (13, 16, 24, 39)
POSITIONS = (S, 10, 16)


def wrapped(make: Maker, block: Block) -> Block:
    """The same computation, inside another program."""
    kind = make.pick("plain", "jit", "remat", "cond")
    if kind == "cond":
        return lambda w, x, m: jax.lax.cond(
            jnp.sum(x) > -1e9, lambda: block(w, x, m), lambda: jnp.zeros_like(x)
        )
    return {"plain": lambda b: b, "jit": jax.jit, "remat": jax.checkpoint}[kind](block)


def step(make: Maker, D: int, depth: int = 1, residual: bool | None = None) -> Block:
    """A block, its input normed or not, its output added to the stream or not."""
    kinds = (*LEAVES, parallel, layers) if depth else LEAVES
    kind = make.pick(*kinds)
    block = kind(make, D, depth - 1) if kind in (parallel, layers) else kind(make, D)
    block = wrapped(make, block)
    pre = make.pick(True, False)
    residual = make.pick(True, False) if residual is None else residual

    def run(w: Weights, x: jax.Array, memory: jax.Array) -> jax.Array:
        y = block(w, normed(x) if pre else x, memory)
        return x + y if residual else y

    return run


def parallel(make: Maker, D: int, depth: int) -> Block:
    """Two blocks on the same input."""
    one, two = step(make, D, depth), step(make, D, depth)
    add = make.pick(True, False)

    def run(w: Weights, x: jax.Array, memory: jax.Array) -> jax.Array:
        a, b = one(w, x, memory), two(w, x, memory)
        return a + b if add else a * jnp.tanh(b)

    return run


def layers(make: Maker, D: int, depth: int) -> Block:
    """A block with parameters of its own each time: a scan if they are stacked.

    Residual, so that the stream is one class however the layers are run.
    """
    start, count = len(make.shapes), make.pick(2, 3)
    block = step(make, D, depth, residual=True)
    indices = range(start, len(make.shapes))
    make.layers.update(dict.fromkeys(indices, count))

    def run(w: Weights, x: jax.Array, memory: jax.Array) -> jax.Array:
        own = {i: w[i] for i in indices}
        if isinstance(w[start], list):
            for i in range(count):
                x = block({key: kernels[i] for key, kernels in own.items()}, x, memory)
            return x
        return jax.lax.scan(lambda x, w: (block(w, x, memory), None), x, own)[0]

    return run


def start(make: Maker, D: int, V: int) -> tuple[Callable[[Weights, Any], jax.Array], int | None]:
    """((weights, batch) -> x_BSD, the table's index); no table if the batch has features."""
    kind = make.pick("ids", "features", "positions", "counted")
    if kind == "features":
        return lambda w, batch: batch["x"], None
    table, T = make.weight(V, D), make.pick(*POSITIONS)
    places = make.weight(T, D) if kind != "ids" else None

    def run(w: Weights, batch: Any) -> jax.Array:
        x = w[table][batch["ids"] % V]
        if places is None:
            return x
        rows = jnp.cumsum(batch["ids"] > 3, -1) % T if kind == "counted" else np.arange(S)
        return x + w[places][rows]

    return run, table


def end(
    make: Maker, D: int, V: int, table: int | None
) -> Callable[[Weights, jax.Array], jax.Array]:
    kind = make.pick("untied", "biased", "pooled", "none", *(["tied"] if table is not None else []))
    if kind == "none":
        return lambda w, x: x
    if kind == "tied":
        return lambda w, x: x @ w[table].T
    if kind == "pooled":
        few = make.weight(D, 3)
        return lambda w, x: jnp.tanh(x[:, 0]) @ w[few]
    head, bias = make.weight(D, V), make.weight(V) if kind == "biased" else None
    return lambda w, x: x @ w[head] + (0 if bias is None else w[bias])


@st.composite
def programs(draw: Callable[..., Any], grouped: bool = True) -> Program:
    return chain(Maker(lambda choices: draw(st.sampled_from(choices)), grouped))


def chain(make: Maker) -> Program:
    D, V = make.pick(*WIDTHS), make.pick(*VOCABULARIES)
    embed, table = start(make, D, V)
    steps = [step(make, D) for _ in range(make.pick(1, 2, 3))]
    sources = [make.pick(*range(i + 1)) for i in range(len(steps))]
    head = end(make, D, V, table)

    def run(w: Weights, batch: Any) -> jax.Array:
        seen = [embed(w, batch)]
        for block, source in zip(steps, sources, strict=True):
            seen.append(block(w, seen[-1], seen[source]))
        return head(w, seen[-1])

    ids = {"ids": jax.ShapeDtypeStruct((B, S), jnp.int32)}
    features = {"x": jax.ShapeDtypeStruct((B, S, D), jnp.float32)}
    return Program(tuple(make.shapes), dict(make.layers), run, features if table is None else ids)
