"""The cross-entropy of tokens, in memory that their logits fit in.

Shape letters: B batch, S sequence, D model, V vocab, C chunks, P positions of a chunk.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import ClosedJaxpr, Var, jaxpr_as_fun
from jax.sharding import PartitionSpec as P

from ..layout.activations import spec_of
from ..layout.mesh import add_up, axes_of, free_axes, on_parts
from .plain_losses import nats, smoothing_here
from .layers import CHOICE, LOGITS

# Of a chunk's logits on a device, in float32. A chunk's product with the head is made again going
# backward, at the size of 2,000 tokens and 128k words as fast as a larger one.
CHUNK_BYTES = 2**30


LogitsFn = Callable[[jax.Array], jax.Array]


def cross_entropy(
    logits_fn: LogitsFn, x_BSD: jax.Array, labels_BS: jax.Array, chunk: int | None = None
) -> jax.Array:
    """Return the cross-entropy of each token in nats: losses_BS, float32.

    `logits_fn` turns hidden states (B, P, D) into logits (B, P, V). It is called on at most `chunk`
    positions at a time, as many as have CHUNK_BYTES of logits if None, and again in the backward
    pass, so that the logits of all S positions never exist at once. S need not be a multiple of
    `chunk`; up to it, and where LOGITS are saved, nothing is computed again. A label outside [0, V) picks no logit: its loss is
    the log of the partition function, to be weighted by 0.

    What `logits_fn` computes without hidden states, such as a head in the compute dtype, is computed
    and gathered once for all chunks. Its gradient is summed in float32, and then sent, once.
    """
    B, S, _ = x_BSD.shape
    share = smoothing_here()
    if chunk is None:
        V = jax.eval_shape(logits_fn, x_BSD).shape[-1]
        chunk = max(1, CHUNK_BYTES * math.prod(free_axes().values()) // (4 * B * V))
        if LOGITS in (CHOICE.get().names or ()):
            chunk = S
    if S <= chunk:
        return nats(logits_fn(x_BSD), labels_BS, share)
    axes = axes_of(spec_of(x_BSD.shape, "x_BSD")[1])
    # Of positions: each device has a part of every chunk.
    parts = math.prod(free_axes()[axis] for axis in axes)
    num_chunks = -(-S // chunk)
    size = -(-S // (num_chunks * parts))  # equal chunks: less padding than full ones and a rest
    padding = num_chunks * size * parts - S

    def cut(x: jax.Array) -> jax.Array:
        x = jnp.pad(x, ((0, 0), (0, padding), (0, 0))[: x.ndim])
        x = x.reshape(B, parts, num_chunks, size, *x.shape[2:])
        return jnp.moveaxis(x, 2, 0).reshape(num_chunks, B, parts * size, *x.shape[4:])

    losses_CBP = _in_chunks(logits_fn, cut(x_BSD), cut(labels_BS), share)
    losses_BCS = losses_CBP.reshape(num_chunks, B, parts, size)
    return jnp.moveaxis(losses_BCS, 0, 2).reshape(B, num_chunks * size * parts)[:, :S]


def _in_chunks(
    logits_fn: LogitsFn, x_CBPD: jax.Array, labels_CBP: jax.Array, share: float
) -> jax.Array:
    """Return losses_CBP. Each device has all that the head is of, and sums what its rows give of it."""
    sizes = free_axes()
    split = [
        tuple(axis for axis in axes_of(entry) if sizes[axis] > 1)
        for entry in spec_of(x_CBPD.shape[1:], "x_BSD")[:2]
    ]
    rows = sum(split, ())
    arrays, function = _open(logits_fn)
    if not arrays and jax.sharding.get_abstract_mesh().manual_axes:
        # What a function brings along is refused in a shard_map within another.
        split, rows = [(), ()], ()
    own, sums = P(None, *split), P(*rows)  # of arrays with B and P; of sums, a dim for each axis
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]

    def losses(weights: list, x_BPD: jax.Array, labels_BP: jax.Array) -> jax.Array:
        logits_BPV = _logits(function, shapes, weights, x_BPD)
        if CHOICE.get().names is None:  # for who counts what can be saved
            logits_BPV = checkpoint_name(logits_BPV, LOGITS)
        return nats(logits_BPV, labels_BP, share)

    def forward(weights: list, *parts: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda _, part: (None, losses(weights, *part)), None, parts)[1]

    def backward(weights: list, *parts: jax.Array) -> tuple[list, jax.Array]:
        def step(sums, part):
            x_BPD, labels_BP, g_BP = part
            _, pull = jax.vjp(lambda w, x: losses(w, x, labels_BP), weights, x_BPD)
            grads, dx_BPD = pull(g_BP)
            return [s + g.astype(s.dtype) for s, g in zip(sums, grads, strict=True)], dx_BPD

        zeros = [jnp.zeros(w.shape, jnp.float32) for w in weights]
        sums, dx_CBPD = jax.lax.scan(step, zeros, parts)
        pairs = zip(sums, weights, strict=True)
        return [s.astype(w.dtype).reshape((1,) * len(rows) + s.shape) for s, w in pairs], dx_CBPD

    forward = on_parts(forward, rows, in_specs=(P(), own, own), out_specs=own)
    backward = on_parts(backward, rows, in_specs=(P(), own, own, own), out_specs=(sums, own))

    def pull(arrays: tuple, g_CBP: jax.Array) -> tuple:
        grads, dx_CBPD = backward(*arrays, g_CBP)
        return [add_up(g, len(rows)) for g in grads], dx_CBPD, None

    run = jax.custom_vjp(forward)
    run.defvjp(lambda *arrays: (forward(*arrays), arrays), pull)
    return run(_weights(function, arrays, x_CBPD[0]), x_CBPD, labels_CBP)


def _open(logits_fn: LogitsFn) -> tuple[list[jax.Array], Callable[..., jax.Array]]:
    """Return the arrays of the model whose method `logits_fn` is, and the function (arrays, x) -> logits.

    [] and one that has its arrays of its own, where it is no method of a model.
    """
    model = getattr(logits_fn, "__self__", None)
    if not isinstance(model, nnx.Module):
        return [], lambda _, x: logits_fn(x)
    graph, state = nnx.split(model)
    arrays, structure = jax.tree.flatten(state)

    def function(arrays: list[jax.Array], x: jax.Array) -> jax.Array:
        model = nnx.merge(graph, jax.tree.unflatten(structure, arrays))
        return getattr(model, logits_fn.__name__)(x)

    return arrays, function


def _weights(function: Callable, arrays: list[jax.Array], x: jax.Array) -> list[jax.Array]:
    """Return what `function` computes without `x`, as far as the rest of it needs it."""
    closed, alone, _, needed = _split(function, arrays, x)
    jaxpr = closed.jaxpr.replace(eqns=alone, invars=closed.jaxpr.invars[:-1], outvars=needed)
    return jaxpr_as_fun(ClosedJaxpr(jaxpr, closed.consts))(*arrays)


def _logits(function: Callable, shapes: list, weights: list, x: jax.Array) -> jax.Array:
    """Return function(arrays, x), by the weights that `_weights` gives of it."""
    closed, _, rest, needed = _split(function, shapes, x)
    jaxpr = closed.jaxpr.replace(eqns=rest, constvars=[], invars=[*needed, closed.jaxpr.invars[-1]])
    return jaxpr_as_fun(ClosedJaxpr(jaxpr, []))(*weights, x)[0]


def _split(
    function: Callable, arrays: list, x: jax.Array
) -> tuple[ClosedJaxpr, list, list, list[Var]]:
    """Return the program of `function`, its equations without `x`, the rest, and what these need."""
    closed = jax.make_jaxpr(function)(arrays, x)
    of_x, alone, rest = {closed.jaxpr.invars[-1]}, [], []
    for eqn in closed.jaxpr.eqns:
        if of_x.isdisjoint(v for v in eqn.invars if isinstance(v, Var)):
            alone.append(eqn)
        else:
            rest.append(eqn)
            of_x |= {*eqn.outvars}
    read = [*(v for eqn in rest for v in eqn.invars), *closed.jaxpr.outvars]
    needed = [v for v in dict.fromkeys(v for v in read if isinstance(v, Var)) if v not in of_x]
    return closed, alone, rest, needed
