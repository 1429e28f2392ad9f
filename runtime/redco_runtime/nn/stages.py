"""The layers of a model in stages: a device has some of them, and rows of the batch go from one to the next.

Rows lie over the axis `stage` too. Their M micro-batches follow each other through p stages: at each of M R + p - 1
ticks a stage runs its layers on one, and hands it on (GPipe, Huang et al. 2019). With R repeats a stage has R parts
of the layers, and micro-batches go around R times (Narayanan et al. 2021, section 2.2): of all ticks a stage waits
p - 1. What enters stages, and leaves the last, are streams that move a stage a tick: no device has all of it.
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

STAGE = "stage"
_say = functools.cache(print_once)


def over_stages(remat: str, rows: int, repeats: int) -> Callable[[Run], Run]:
    """Return a decorator: what it makes of run(layer, x, side) -> x is run(layers, x, side), of all layers, stacked.

    Without an axis `stage` it is `over_layers`. With it, what enters a stage is saved for the backward pass, and
    the rest computed again, once, where layers save of it what `remat` says.
    side: a tree of arrays of the same rows, without gradients. rows: of a device, in a micro-batch; as many as divide
    its own. repeats: see above; stages times repeats divide the layers. Raises UserError where they do not.
    """

    def decorate(layer: Run) -> Run:
        def stage(layers: nnx.Module, x: jax.Array, side: Any) -> jax.Array:
            return over_layers(remat)(lambda one, x: layer(one, x, side))(layers, x)

        def run(layers: nnx.Module, x: jax.Array, side: Any) -> jax.Array:
            sizes = free_axes()
            counted = (
                not platform() and CHOICE.get().names is not None
            )  # FLOPs of a model, none of ticks
            if (p := sizes.get(STAGE, 1)) == 1 or counted:
                return stage(layers, x, side)
            graph, params = nnx.split(layers)
            if (count := len(jax.tree.leaves(params)[0])) % (p * repeats):
                raise UserError(
                    f"stage: {p} stages x {repeats} repeats do not divide {count} layers"
                )
            again = jax.checkpoint(
                lambda w, *others: stage(nnx.merge(graph, w), *others), prevent_cse=False
            )
            parts = jax.tree.map(lambda w: w.reshape(repeats, p, -1, *w.shape[1:]), params)
            axes = tuple(axis for axis in axes_of(spec_of(x.shape, "x_BSD")[0]) if sizes[axis] > 1)
            pipe = functools.partial(_pipe, again, p, repeats, rows)
            whole = P(None, STAGE), P(axes), P(axes)
            return on_parts(pipe, axes, in_specs=whole, out_specs=P(axes))(parts, x, side)

        return run

    return decorate


def _pipe(
    stage: Run, p: int, repeats: int, rows: int, params: Any, x_BSD: jax.Array, side: Any
) -> jax.Array:
    """Return what the last stage makes of the rows of this device, one of p; params: (repeats, 1, layers, ...)."""
    slots = len(x_BSD) // math.gcd(len(x_BSD), rows)  # of the stream on this device: micro-batches
    M, here = p * slots, jax.lax.axis_index(STAGE)
    ticks, onwards = M * repeats + p - 1, [(i, (i + 1) % p) for i in range(p)]
    _say(f"stages: {p}, {M} micro-batches, {ticks} ticks, bubble {(p - 1) / ticks:.3f}")
    params = jax.tree.map(lambda w: w[:, 0], params)
    side = jax.tree.map(lambda s: jax.lax.all_gather(_cut(s, slots), STAGE, tiled=True), side)
    pick = functools.partial(jax.lax.dynamic_index_in_dim, keepdims=False)
    put = functools.partial(jax.lax.dynamic_update_index_in_dim, axis=0)

    def tick(carry: Any, t: jax.Array) -> tuple[Any, None]:
        x, stream, waiting = carry  # waiting: what has gone around, until the last one has set out
        slot, number = t % slots, jnp.clip(t - here, 0, M * repeats - 1)
        enters = pick(stream, slot)
        if repeats > 1:
            back = pick(waiting, t % len(waiting)) if len(waiting) else x
            waiting = put(waiting, x, t % len(waiting)) if len(waiting) else waiting
            enters = jnp.where(t < M, enters, back)
        x = jnp.where(here == 0, enters, x)
        own = jax.tree.map(lambda w: pick(w, number // M) if repeats > 1 else w[0], params)
        x = stage(own, x, jax.tree.map(lambda s: pick(s, number % M), side))
        moved = jax.lax.ppermute(pick(stream, slot), STAGE, [(j, i) for i, j in onwards])
        stream = put(stream, jnp.where(here == p - 1, x, moved), slot)
        return (jax.lax.ppermute(x, STAGE, onwards), stream, waiting), None

    stream = _cut(x_BSD, slots)
    waiting = jnp.zeros((M - p if repeats > 1 else 0, *stream.shape[1:]), stream.dtype)
    (_, stream, _), _ = jax.lax.scan(
        tick, (jnp.zeros_like(stream[0]), stream, waiting), jnp.arange(ticks)
    )
    # The stream has gone past each stage by p - 1 slots more than there and back.
    return jnp.roll(stream, 1 - p, axis=0).swapaxes(0, 1).reshape(x_BSD.shape)


def _cut(x: jax.Array, parts: int) -> jax.Array:
    """Return (B, ...) as (parts, B / parts, ...)."""
    return x.reshape(-1, parts, *x.shape[1:]).swapaxes(0, 1)
