"""The layers of a model in stages: a device has some of them, and rows of the batch go from one to the next.

Rows lie over the axis `stage` too. Their M micro-batches follow each other through p stages: at each of M R + p - 1
ticks a stage runs its layers on one, and hands it on (GPipe, Huang et al. 2019). With R repeats a stage has R parts
of the layers, and micro-batches go around R times (Narayanan et al. 2021, section 2.2). A stage waits p - 1 ticks.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P

from ..base.errors import UserError
from ..base.output import print_once
from ..layout.activations import spec_of
from ..layout.mesh import axes_of, free_axes, on_parts, platform
from .layers import Run, over_layers
from .saved_names import CHOICE

_say = functools.cache(print_once)


def over_stages(remat: str, rows: int, repeats: int) -> Callable[[Run], Run]:
    """Return a decorator: what it makes of run(layer, x, side) -> x is run(layers, x, side), of all layers, stacked.

    What enters a stage is saved for the backward pass, and of the rest, which is computed again, what `remat` says.
    side: arrays of rows, without gradients. rows: of a device, in a micro-batch. repeats: see above; stages
    times repeats divide the layers, or it raises UserError. Without an axis `stage` it is `over_layers`.
    """
    return lambda layer: functools.partial(_run, layer, remat, rows, repeats)


def _run(layer: Run, remat: str, rows: int, repeats: int, layers: nnx.Module, x: Any, side: Any):
    def stage(layers: nnx.Module, x: jax.Array, side: Any) -> jax.Array:
        return over_layers(remat)(lambda one, x: layer(one, x, side))(layers, x)

    sizes, traced = free_axes(), not platform()  # for its FLOPs, of no ticks, or its memory
    if (p := sizes.get("stage", 1)) == 1 or traced and CHOICE.get().names is not None:
        return stage(layers, x, side)
    graph, params = nnx.split(layers)
    if (count := len(jax.tree.leaves(params)[0])) % (p * repeats):
        raise UserError(f"{p} stages x {repeats} repeats do not divide {count} layers")
    repeats = 1 if traced else repeats  # a loop over all layers of a stage has all its parameters
    own = jax.checkpoint(  # takes its part itself, or each tick would save one
        lambda w, i, *x: stage(nnx.merge(graph, _pick(w, i)), *x), prevent_cse=False
    )
    parts = jax.tree.map(lambda w: w.reshape(repeats, -1, *w.shape[1:]), params)
    axes = [axis for axis in axes_of(spec_of(x.shape, "x_BSD")[0]) if sizes[axis] > 1]
    pipe, split = functools.partial(_pipe, own, p, repeats, rows), P((*axes,))
    specs = {"in_specs": (P(None, "stage"), split, split), "out_specs": split}
    return on_parts(pipe, axes, **specs)(parts, x, side)


def _pipe(stage: Any, p: int, repeats: int, rows: int, params: Any, x: Any, side: Any) -> jax.Array:
    """Return what the last of p stages makes of this device's rows; params: (repeats, layers, ...)."""
    slots = len(x) // math.gcd(len(x), rows)  # of the stream on this device
    M, here, onwards = p * slots, jax.lax.axis_index("stage"), [(i, (i + 1) % p) for i in range(p)]
    ticks = M * repeats + p - 1
    _say(f"stages: {p}, {M} micro-batches, {ticks} ticks, bubble {(p - 1) / ticks:.3f}")
    side = jax.tree.map(lambda s: jax.lax.all_gather(_cut(s, slots), "stage", tiled=True), side)
    put = functools.partial(jax.lax.dynamic_update_index_in_dim, axis=0)

    def tick(carry: Any, t: jax.Array) -> tuple[Any, None]:
        x, stream, waiting = carry  # waiting: what has gone around, until the last one has set out
        slot, number = t % slots, jnp.clip(t - here, 0, M * repeats - 1)
        back = _pick(waiting, t % len(waiting)) if len(waiting) else x
        waiting = put(waiting, x, t % len(waiting)) if len(waiting) else waiting
        x = jnp.where(here == 0, jnp.where(t < M, _pick(stream, slot), back), x)
        x = stage(params, number // M, x, _pick(side, number % M))
        moved = jax.lax.ppermute(_pick(stream, slot), "stage", [(j, i) for i, j in onwards])
        stream = put(stream, jnp.where(here == p - 1, x, moved), slot)
        return (jax.lax.ppermute(x, "stage", onwards), stream, waiting), None

    stream, waits = _cut(x, slots), M - p if repeats > 1 else 0  # of a stream no device has all
    empty = jnp.zeros_like(stream[0]), jnp.zeros_like(stream, shape=(waits, *stream.shape[1:]))
    (_, stream, _), _ = jax.lax.scan(tick, (empty[0], stream, empty[1]), jnp.arange(ticks))
    return jnp.roll(stream, 1 - p, axis=0).swapaxes(0, 1).reshape(x.shape)  # by as many ticks late


def _cut(x: jax.Array, parts: int) -> jax.Array:
    return x.reshape(-1, parts, *x.shape[1:]).swapaxes(0, 1)  # (B, ...) -> (parts, B / parts, ...)


def _pick(tree: Any, i: jax.Array) -> Any:
    return jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, i, keepdims=False), tree)
