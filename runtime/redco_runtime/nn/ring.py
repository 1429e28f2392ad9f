"""Attention in a ring, where devices split positions: queries stay, and keys and values go from device to device.

After Liu et al. 2023, with exact gradients of what flash attention saves (Dao et al. 2022): outputs, and of each query the
logarithm of the sum of its weights. Of a text cut in 2n parts a device has two here, one from either end (zig-zag): of each
step's keys all have two blocks to do with. A block is a kernel's (ring_blocks.py); or products of XLA's, of P queries at a time.
Shape letters: as in attention.py; C positions of a part.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec as P

from ..base.messages import UserError
from ..layout.activations import lay_out, spec_of
from ..layout.mesh import axes_of, free_axes, on_parts, platform
from .attention import BLOCK
from .context import share_out
from .kernels import SAVED_AS, Arrays, Rule
from .ring_blocks import Blocks, Place, blocks_of

KNOWN = {"causal", "window", "windowed", "mask_BT", "segments_BS", "cap", "scale"}
NONE = -1e30  # the logarithm of no weights


def in_ring(attend: Callable[..., jax.Array], layout: str, q, k, v, **options: Any) -> jax.Array:
    """Return o_BSNH of arrays that lie by position, as it does; `attend` has few queries against a cache, and all on one device.

    options: of `attention`. Raises UserError for what is no causal order, and for lengths that 2n does not divide.
    """
    options = {name: x for name, x in options.items() if x is not None}
    rows, positions, heads, _ = map(axes_of, spec_of(q.shape, layout))
    spec = P(rows or None, positions, heads or None, None)
    n, S = math.prod(free_axes()[axis] for axis in positions), q.shape[1]
    if "start" in options or n == 1 or not platform():  # that is traced for its FLOPs
        return attend(q, k, v, layout=SAVED_AS, **options)
    odd = sorted({*options} - KNOWN) if options.get("causal") else ["no causal order"]
    if odd or k.shape[1] != S:
        what = f"attention in a ring does not do this: {', '.join(odd) or 'keys of another length'}"
        raise UserError(f"{what}: `redco update --context-attention heads` has no ring")
    if S % (2 * n):
        what = f"attention in a ring: {S} positions do not divide by {2 * n}, two parts for each"
        raise UserError(f"{what} of {n} devices: choose a length that does")
    scale = options.get("scale", q.shape[-1] ** -0.5)
    rule = Rule(True, options.get("window"), options.get("cap"), scale)
    arrays: Arrays = {x: options[x] for x in ("windowed", "mask_BT", "segments_BS") if x in options}
    few = {name: P(*spec[: min(x.ndim, 1)]) for name, x in arrays.items()}
    split = functools.partial(on_parts, axes=[*free_axes()])
    blocks = blocks_of(rule, arrays, q.dtype, S // (2 * n)) or Blocks(_attend, _pull)
    ring, sums = Ring(rule, positions, n, blocks), P(*spec[:3])
    run = split(ring.run, in_specs=(spec,) * 3 + (few,), out_specs=(spec, sums))
    pull = split(ring.pull, in_specs=(spec,) * 5 + (sums, few), out_specs=(spec,) * 3)

    def forward(q, k, v, arrays):
        o, lse = run(q, k, v, arrays)
        o, lse = lay_out(o, SAVED_AS), checkpoint_name(lse, SAVED_AS)
        return o, (q, k, v, o, lse, arrays)

    def backward(saved, do):
        *inputs, lse, arrays = saved
        return *pull(*inputs, do, lse, arrays), None

    exact = jax.custom_vjp(lambda *inputs: forward(*inputs)[0])
    exact.defvjp(forward, backward)
    return exact(*share_out(q, k, v, heads), arrays)


class Ring:
    """What each of n devices of an axis does: `run` forward, `pull` backward, with its part of the arrays."""

    def __init__(self, rule: Rule, axis: tuple[str, ...], n: int, blocks: Blocks):
        self.rule, self.axis, self.n, self.blocks = rule, axis, n, blocks
        # Where the two parts of each device go: part c is of device c, and beyond the middle back again.
        self.ways = [[(c // 2, min(c, 2 * n - 1 - c)) for c in range(h, 2 * n, 2)] for h in (0, 1)]

    def run(self, q, k, v, arrays: Arrays) -> tuple[jax.Array, jax.Array]:
        """Return (o_BSNH, of each query the logarithm of the sum of its weights, BSN)."""
        N, dtype = q.shape[2], q.dtype
        q, kv = jnp.split(self._apart(jnp.concatenate([q, k, v], axis=2)), [N], axis=3)

        def block(sums, moving, a, b, place):
            k, v = jnp.split(_pick(moving[0], b), 2, axis=2)
            own, more = _pick(sums, a), self.blocks.run(self.rule, _pick(q, a), k, v, place)
            lse = jnp.logaddexp(own[1], more[1])
            o = sum(x * jnp.exp(y - lse)[..., None] for x, y in (own, more))
            return _put(sums, (o, lse), a), moving

        zeros = jnp.zeros(q.shape, jnp.float32)
        (o, lse), _ = self._around(block, (zeros, zeros[..., 0] + NONE), (kv,), arrays)
        return self._together(o.astype(dtype)), self._together(lse)

    def pull(self, q, k, v, o, do, lse, arrays: Arrays) -> tuple[jax.Array, ...]:
        """Return the gradients of q, k and v, from those of o, and of each query the logarithm of all weights."""
        (N, K), dtype = (q.shape[2], k.shape[2]), q.dtype
        many = self._apart(jnp.concatenate([q, o, do, k, v], axis=2))
        q, o, do, kv = jnp.split(many, [N, 2 * N, 3 * N], axis=3)
        of_queries = q, o, do, self._apart(lse)

        def block(dq, moving, a, b, place):
            (kv, dkv), own = _pick(moving, b), _pick(of_queries, a)
            more, grads = self.blocks.pull(self.rule, *own, *jnp.split(kv, 2, axis=2), place)
            return _put(dq, _pick(dq, a) + more, a), (moving[0], _put(moving[1], dkv + grads, b))

        zeros = jnp.zeros(q.shape, jnp.float32), jnp.zeros(kv.shape, jnp.float32)
        dq, (_, dkv) = self._around(block, zeros[0], (kv, zeros[1]), arrays)
        home = self._send(dkv.astype(dtype))  # which are one device from there
        grads = jnp.concatenate([dq.astype(dtype), home], axis=3)
        return tuple(jnp.split(self._together(grads), [N, N + K], axis=2))

    def _around(self, block: Callable, carry: Any, moving: Any, arrays: Arrays) -> Any:
        """Return (carry, moving) after all blocks; what moves is, of each device, at the one before it then."""
        here, n, C = jax.lax.axis_index(self.axis), self.n, moving[0].shape[2]

        def visit(state, t, pairs, past=True):
            there = (here - t) % n
            for a, b in pairs:
                q, k = (jnp.where(x, 2 * n - 1 - i, i) * C for x, i in ((a, here), (b, there)))
                state = block(*state, a, b, Place(q, k, C, arrays, past or a != b))
            return state

        def step(state, t):
            # Sums have come from the device before, while this one computes what it adds to them.
            carry, (read, *sums) = state
            state = carry, (read, *self._send(sums))
            # Each later part sees its first one; and its second the second, or its first the first.
            late = (t > here).astype(jnp.int32)
            return visit(state, t, [(1, 0), (late, late)])

        def ahead(state):  # what is read next, beside what is computed now
            carry, (read, *sums) = state
            return carry, (self._send(read), *sums)

        state = ahead(visit((carry, moving), 0, [(0, 0), (1, 0), (1, 1)], past=False))
        state, _ = jax.lax.scan(lambda x, t: (ahead(step(x, t)), None), state, jnp.arange(1, n - 1))
        return step(state, jnp.int32(n - 1))

    def _send(self, x: Any) -> Any:
        onwards = [(i, (i + 1) % self.n) for i in range(self.n)]
        return jax.tree.map(lambda x: jax.lax.ppermute(x, self.axis, onwards), x)

    def _apart(self, x: jax.Array) -> jax.Array:
        """Return (2, B, C, ...), the parts of a device from either end, of (B, 2C, ...) that follow each other."""
        halves = zip(jnp.split(x, 2, axis=1), self.ways, strict=True)
        return self._swap(jnp.stack([jax.lax.ppermute(x, self.axis, way) for x, way in halves]))

    def _together(self, x: jax.Array) -> jax.Array:
        back = [[(j, i) for i, j in way] for way in self.ways]
        halves = zip(self._swap(x), back, strict=True)
        return jnp.concatenate([jax.lax.ppermute(x, self.axis, way) for x, way in halves], axis=1)

    def _swap(self, x: jax.Array) -> jax.Array:
        """Return the halves of an odd device the other way round: its first part was the second of another."""
        return jnp.where(jax.lax.axis_index(self.axis) % 2, x[::-1], x)


def _attend(rule: Rule, q, k, v, place: Place) -> tuple[jax.Array, jax.Array]:
    """Return (o, logarithms of sums of weights) in float32, of the queries and keys of one block alone."""

    def part(_, x):
        scores, _, mask = _scores(rule, x[0], x[1], k, place)
        top = jnp.max(scores, axis=-1, keepdims=True, where=mask, initial=NONE)
        weights = jnp.where(mask, jnp.exp(scores - top), 0)
        total = weights.sum(axis=-1, keepdims=True)  # 1 at least, where any key is seen
        o = _product("bkgpt,btkh->bpkgh", weights / jnp.maximum(total, 1), v)
        return None, (o, jnp.moveaxis((top + jnp.log(total))[..., 0], 3, 1))

    _, (o, lse) = _by_parts(part, None, q)
    return o.reshape(q.shape), lse.reshape(q.shape[:3])


def _pull(rule: Rule, q, o, do, lse, k, v, place: Place) -> tuple[jax.Array, jax.Array]:
    """Return the gradients of q, and of k and v beside each other, of one block.

    o, do, lse: of all blocks, each query's result, its gradient and the logarithm of the sum of its weights.
    """
    sums = jnp.sum(do.astype(jnp.float32) * o.astype(jnp.float32), axis=-1)

    def part(dkv, x):
        (first, q, do, few), K = x, k.shape[2]
        scores, slope, mask = _scores(rule, first, q, k, place)
        few = jnp.moveaxis(few.reshape(*few.shape[:2], K, -1, 2), 1, 3)
        weights = jnp.where(mask, jnp.exp(scores - few[..., :1]), 0)
        do = do.reshape(*do.shape[:2], K, -1, do.shape[3])
        pulled = _product("bpkgh,btkh->bkgpt", do, v) - few[..., 1:]
        grads = (weights * pulled * slope).astype(q.dtype)
        dk = _product("bkgpt,bpkgh->btkh", grads, q.reshape(do.shape))
        dv = _product("bkgpt,bpkgh->btkh", weights, do)
        dq = _product("bkgpt,btkh->bpkgh", grads, k)
        return dkv + jnp.concatenate([dk, dv], axis=2), dq

    few, zeros = jnp.stack([lse, sums], axis=3), jnp.concatenate([k, v], axis=2)
    dkv, dq = _by_parts(part, jnp.zeros(zeros.shape, jnp.float32), q, do, few)
    return dq.reshape(q.shape), dkv


def _scores(rule: Rule, first, q, k, place: Place) -> tuple[jax.Array, Any, jax.Array]:
    """Return (scores_BKGPT in float32, what their gradients are multiplied by, which count)."""
    q_BPKGH = q.reshape(*q.shape[:2], k.shape[2], -1, q.shape[3])
    scores = rule.scale * _product("bpkgh,btkh->bkgpt", q_BPKGH, k)
    slope: Any = rule.scale
    if rule.cap is not None:
        bent = jnp.tanh(scores / rule.cap)
        scores, slope = rule.cap * bent, rule.scale * (1 - bent**2)
    return scores, slope, place.mask(rule, first, q.shape[1])


def _product(dims: str, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.einsum(dims, x.astype(y.dtype), y, preferred_element_type=jnp.float32)


def _by_parts(part: Callable, carry: Any, *arrays: jax.Array) -> Any:
    """Return (carry, (B, C, ...)) of part(carry, (first, some queries of each of arrays, (B, C, ...)))."""
    C = arrays[0].shape[1]
    size = next(size for size in range(min(C, BLOCK), 0, -1) if C % size == 0)
    cut = [jnp.moveaxis(x.reshape(len(x), -1, size, *x.shape[2:]), 1, 0) for x in arrays]
    carry, many = jax.lax.scan(part, carry, (jnp.arange(0, C, size), *cut))
    flat = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1).reshape(x.shape[1], C, *x.shape[3:]), many)
    return carry, flat


def _pick(tree: Any, i: Any) -> Any:
    return jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, i, keepdims=False), tree)


def _put(tree: Any, values: Any, i: Any) -> Any:
    put = functools.partial(jax.lax.dynamic_update_index_in_dim, index=i, axis=0)
    return jax.tree.map(put, tree, values)
