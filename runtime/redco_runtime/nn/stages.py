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
from optax.tree import where

from ..base.messages import UserError, announce
from ..base.state import flatten, rebuild
from ..layout.activations import spec_of
from ..layout.mesh import axes_of, free_axes, on_parts, platform, split_rows
from .layers import CHOICE, Run, over_layers


def over_stages(remat: str, rows: int, repeats: int) -> Callable[[Run], Run]:
    """Return a decorator: what it makes of run(layer, x, side) -> x is run(layers, x, side), of all layers, stacked.

    What enters a stage is saved for the backward pass, and of the rest, which is computed again, what `remat` says.
    x, side: arrays of rows, of x hidden states first; of `side` without gradients. rows: of a device, in a micro-batch.
    repeats: see above; stages times repeats divide the layers, or it raises UserError. Without an axis `stage` it is `over_layers`.
    """
    return lambda layer: functools.partial(_run, layer, remat, rows, repeats)


def _run(layer: Run, remat: str, rows: int, repeats: int, layers: nnx.Module, x: Any, side: Any):
    def run(layers: nnx.Module, x: Any, side: Any) -> Any:
        return over_layers(remat)(lambda one, x: layer(one, x, side))(layers, x)

    sizes, traced = free_axes(), not platform()  # for its FLOPs, of no ticks, or its memory
    if (p := sizes.get("stage", 1)) == 1 or traced and CHOICE.get().names is not None:
        return run(layers, x, side)
    graph, params = nnx.graphdef(layers), nnx.to_pure_dict(nnx.state(layers))
    if (count := len(jax.tree.leaves(params)[0])) % (p * repeats):
        raise UserError(f"{p} stages x {repeats} repeats do not divide {count} layers")
    repeats = 1 if traced else repeats  # a loop over all layers of a stage has all its parameters
    # Takes its part itself, or each tick would save one.
    own = jax.checkpoint(lambda w, i, *x: run(nnx.merge(graph, _pick(w, i)), *x), prevent_cse=False)
    lies = spec_of(jax.tree.leaves(x)[0].shape, "x_BSD")
    axes = tuple(axis for axis in axes_of(lies[0]) if sizes[axis] > 1)
    leaves = flatten(params).items()  # of which `expert` splits some besides
    specs = {path: P(None, *spec_of(w.shape, f"layers/{path}", axes)) for path, w in leaves}
    parts = jax.tree.map(lambda w: w.reshape(repeats, -1, *w.shape[1:]), params)
    pipe = functools.partial(_pipe, own, p, repeats, rows)
    in_specs = rebuild(params, specs), P(axes), P(axes)
    return on_parts(pipe, axes, in_specs=in_specs, out_specs=P(axes))(parts, x, side)


def _pipe(stage: Any, p: int, repeats: int, rows: int, params: Any, x: Any, side: Any) -> Any:
    """Return what the last of p stages makes of this device's rows, p - 1 ticks late; params: (repeats, layers, ...)."""
    here, onwards = jax.lax.axis_index("stage"), [(i, (i + 1) % p) for i in range(p)]
    slots = math.lcm(len(jax.tree.leaves(x)[0]), rows) // rows  # of the stream on this device
    ticks, places = (M := p * slots) * repeats + p - 1, M - p + 1 if repeats > 1 else 1
    announce(f"stages: {p}, {M} micro-batches, {ticks} ticks, bubble {(p - 1) / ticks:.3f}")
    side, stream = jax.tree.map(lambda x: split_rows(x, slots), (side, x))
    side = jax.lax.all_gather(side, "stage", tiled=True)  # of a stream no device has all

    def tick(carry: Any, t: jax.Array) -> tuple[Any, None]:
        x, stream, waiting = carry  # waiting: what has gone around, until the last one has set out
        slot, number = t % slots, jnp.clip(t - here, 0, M * repeats - 1)
        waiting = _put(waiting, x, t % places)
        first = where(t < M, _pick(stream, slot), _pick(waiting, (t + 1) % places))
        x = stage(params, number // M, where(here == 0, first, x), _pick(side, number % M))
        moved = jax.lax.ppermute(_pick(stream, slot), "stage", [(j, i) for i, j in onwards])
        stream = _put(stream, where(here == p - 1, x, moved), slot)
        return (jax.lax.ppermute(x, "stage", onwards), stream, waiting), None

    waiting = jax.tree.map(lambda s: jnp.zeros_like(s, shape=(places, *s.shape[1:])), stream)
    out = jax.lax.scan(tick, (_pick(waiting, 0), stream, waiting), jnp.arange(ticks))[0][1]
    return jax.tree.map(lambda s, x: jnp.roll(s, 1 - p, 0).swapaxes(0, 1).reshape(x.shape), out, x)


def _pick(tree: Any, i: Any) -> Any:
    return jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, i, keepdims=False), tree)


def _put(tree: Any, x: Any, i: jax.Array) -> Any:
    return jax.tree.map(lambda s, x: jax.lax.dynamic_update_index_in_dim(s, x, i, 0), tree, x)
