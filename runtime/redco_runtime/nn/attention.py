"""Attention, by the kernel of the devices that a program is traced for: those of the mesh in place.

cuDNN's on NVIDIA's GPUs and splash attention on TPUs, forward and backward; elsewhere XLA's, from the
formula written out. XLA's too for what a kernel cannot do, which is said once, and for few queries
against a cache.

Shape letters: B batch, S queries, T keys, N heads, K key/value heads, G heads of a key/value head,
H head dim, C blocks of P queries.
"""

import functools
import itertools
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..base.messages import feature
from ..layout.activations import lay_out, spec_of
from ..layout.mesh import axes_of, platform
from .kernels import KERNELS, SAVED_AS, Arrays, Rule, run_kernel

# Queries at a time of XLA's on an accelerator: S x T scores never lie in its memory at once.
# As many as the TPU's kernel takes.
BLOCK = 512
# Parts of a causal text, whose queries have to do with the keys up to their part's end alone: 5/8 of
# all scores. Eight parts would leave 9/16, and make twice the program.
PARTS = 4


def by_heads(attend: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Return `attend`, for which each device has all positions of its own heads, where devices split these."""

    @functools.wraps(attend)
    def exchanged(*arrays: jax.Array, layout: str = "heads_BSNH", **options: Any) -> jax.Array:
        if not axes_of(spec_of(arrays[0].shape, layout)[1]):
            return attend(*arrays, layout=layout, **options)
        context = feature("context", "nn.context", flag="--mesh context=2")
        return context.by_heads(attend, layout, *arrays, **options)

    return exchanged


@by_heads
def attention(
    q_BSNH: jax.Array,
    k_BTKH: jax.Array,
    v_BTKH: jax.Array,
    *,
    causal: bool = False,
    start: jax.Array | int | None = None,
    window: int | None = None,
    windowed: jax.Array | None = None,
    mask_BT: jax.Array | None = None,
    segments_BS: jax.Array | None = None,
    bias_1NST: jax.Array | None = None,
    cap: float | None = None,
    scale: float | None = None,
    layout: str = "heads_BSNH",
) -> jax.Array:
    """Return o_BSNH, in the dtype of the queries; scores are float32. K divides N.

    It is laid out, and saved for the backward pass, by the name SAVED_AS.

    causal: a query sees its own key and those before it, the last `window` of them if there is one.
    start: the key of the first query, in a cache. windowed: a bool; where it is false, `window` does
    not hold. mask_BT: the keys that are seen, on either side of padding; what a query gets that
    sees none is undefined. segments_BS: ids of the texts packed in a row, which do not see each
    other (S = T), at most `most_texts` of a row. bias_1NST: is added to the scores. cap: they are bent to stay below it. scale: of
    the scores, 1 / sqrt(H) by default. layout: what `lay_out` calls the queries.
    """
    rule = Rule(causal, window, cap, q_BSNH.shape[-1] ** -0.5 if scale is None else scale)
    options = {"mask_BT": mask_BT, "segments_BS": segments_BS, "windowed": windowed}
    arrays = {name: x for name, x in options.items() if x is not None}
    kernel = KERNELS.get(platform())
    if kernel and start is None:
        try:
            if bias_1NST is not None:
                raise NotImplementedError("a bias of scores")
            return run_kernel(kernel, layout, rule, q_BSNH, k_BTKH, v_BTKH, arrays)
        except NotImplementedError as limit:
            say(f"attention: XLA's, slower than {kernel.title}, which does not do this: {limit}")
    ids_BS, first = arrays.get("segments_BS"), 0 if start is None else start
    if not kernel:
        o_BSNH = _formula(rule, first, q_BSNH, k_BTKH, v_BTKH, ids_BS, bias_1NST, arrays)
    elif causal and start is None:
        o_BSNH = _in_parts(rule, q_BSNH, k_BTKH, v_BTKH, ids_BS, bias_1NST, arrays)
    else:
        o_BSNH = _in_blocks(rule, q_BSNH, k_BTKH, v_BTKH, first, ids_BS, bias_1NST, arrays)
    return lay_out(o_BSNH, SAVED_AS)


def text_positions(length: int, segments_BS: jax.Array | None) -> jax.Array:
    """Return the positions 0 to `length - 1`, (1, S), or (B, S) that begin anew with each text of a row.

    segments_BS: ids of the texts packed in a row, each a stretch of it; None where a row is one text.
    """
    places_1S = jnp.arange(length)[None, :]
    if segments_BS is None:
        return places_1S
    begins_BS = jnp.diff(segments_BS, axis=1, prepend=segments_BS[:, :1] - 1) != 0
    return places_1S - jax.lax.cummax(jnp.where(begins_BS, places_1S, 0), axis=1)


@functools.cache
def say(line: str) -> None:
    """Print a line to stderr, once a process."""
    print(line, file=sys.stderr)


def _in_parts(rule, q_BSNH, k_BTKH, v_BTKH, ids_BS, bias_1NST, arrays: Arrays) -> jax.Array:
    """Return o_BSNH of a causal text by the formula, in PARTS, each with the keys up to its end."""
    S = q_BSNH.shape[1]
    parts = min(PARTS, -(-S // BLOCK))
    outputs = []
    for first, end in itertools.pairwise(S * i // parts for i in range(parts + 1)):
        q, (k, v) = q_BSNH[:, first:end], (x[:, :end] for x in (k_BTKH, v_BTKH))
        ids = None if ids_BS is None else ids_BS[:, first:end]
        bias = None if bias_1NST is None else bias_1NST[:, :, first:end, :end]
        near = {name: x[:, :end] if x.ndim else x for name, x in arrays.items()}
        outputs.append(_in_blocks(rule, q, k, v, first, ids, bias, near))
    return jnp.concatenate(outputs, axis=1)


def _in_blocks(rule, q_BSNH, k_BTKH, v_BTKH, start, ids_BS, bias_1NST, arrays: Arrays) -> jax.Array:
    """Return o_BSNH by the formula, for at most BLOCK queries at a time, and again going backward."""
    S = q_BSNH.shape[1]
    blocks = -(-S // BLOCK)
    size = -(-S // blocks)  # equal blocks: less padding than full ones and a rest

    def cut(x, dim):
        """Bring the blocks of the queries, a dim of x, to the front; zeros fill up the last."""
        if x is None:
            return None
        x = jnp.pad(x, [(0, blocks * size - S if i == dim else 0) for i in range(x.ndim)])
        return jnp.moveaxis(x.reshape(*x.shape[:dim], blocks, size, *x.shape[dim + 1 :]), dim, 0)

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def block(parts):
        first, q_BPNH, ids_BP, bias_1NPT = parts
        return _formula(rule, first, q_BPNH, k_BTKH, v_BTKH, ids_BP, bias_1NPT, arrays)

    if blocks == 1:
        return block((start, q_BSNH, ids_BS, bias_1NST))
    first_C = start + size * jnp.arange(blocks)
    o_CBPNH = jax.lax.map(block, (first_C, cut(q_BSNH, 1), cut(ids_BS, 1), cut(bias_1NST, 2)))
    return jnp.moveaxis(o_CBPNH, 0, 1).reshape(-1, blocks * size, *q_BSNH.shape[2:])[:, :S]


def _formula(rule, start, q_BSNH, k_BTKH, v_BTKH, ids_BS, bias_1NST, arrays: Arrays) -> jax.Array:
    """Return o_BSNH, every score written out."""
    mask_B1ST = seen(rule, start, q_BSNH.shape[1], k_BTKH.shape[1], ids_BS, arrays)
    if rule.cap is None:
        return jax.nn.dot_product_attention(
            q_BSNH, k_BTKH, v_BTKH, bias=bias_1NST, mask=mask_B1ST, scale=rule.scale
        )
    if bias_1NST is not None:
        raise NotImplementedError("attention: a cap and a bias at once: no model has both")
    # In the order of the products, so that nothing moves S x T scores.
    q_BSKGH = q_BSNH.reshape(*q_BSNH.shape[:2], k_BTKH.shape[2], -1, q_BSNH.shape[3])
    scores_BKGST = _products(q_BSKGH.transpose(0, 2, 3, 1, 4), k_BTKH.swapaxes(1, 2))
    scores_BKGST = rule.cap * jnp.tanh(scores_BKGST * (rule.scale / rule.cap))
    if mask_B1ST is not None:
        lowest = jnp.finfo(jnp.float32).min
        scores_BKGST = jnp.where(mask_B1ST[:, None], scores_BKGST, lowest)
    weights_BKGST = jax.nn.softmax(scores_BKGST).astype(v_BTKH.dtype)
    o_BKGSH = jnp.einsum("bkgst,bkth->bkgsh", weights_BKGST, v_BTKH.swapaxes(1, 2))
    return o_BKGSH.transpose(0, 3, 1, 2, 4).reshape(q_BSNH.shape)


@jax.custom_vjp
def _products(q_BKGSH: jax.Array, k_BKTH: jax.Array) -> jax.Array:
    """Return scores_BKGST in float32. Their gradients go into products in the dtype of the queries."""
    return jnp.einsum("bkgsh,bkth->bkgst", q_BKGSH, k_BKTH, preferred_element_type=jnp.float32)


def _pull_products(arrays: tuple[jax.Array, jax.Array], grads: jax.Array):
    (q_BKGSH, k_BKTH), grads_BKGST = arrays, grads.astype(arrays[0].dtype)
    dq_BKGSH = jnp.einsum("bkgst,bkth->bkgsh", grads_BKGST, k_BKTH)
    return dq_BKGSH, jnp.einsum("bkgst,bkgsh->bkth", grads_BKGST, q_BKGSH)


_products.defvjp(lambda q, k: (_products(q, k), (q, k)), _pull_products)


def seen(rule: Rule, start, S: int, T: int, ids_BS, arrays: Arrays) -> jax.Array | None:
    """Return which keys each query sees, where dims of size 1 are all alike: (B, 1, S, T), bool."""
    masks = []
    if rule.causal:
        ago_ST = (start + jnp.arange(S))[:, None] - jnp.arange(T)[None, :]
        seen_ST = ago_ST >= 0
        if rule.window is not None:
            near_ST = ago_ST < rule.window
            seen_ST &= near_ST | ~arrays["windowed"] if "windowed" in arrays else near_ST
        masks.append(seen_ST[None, None])
    if "mask_BT" in arrays:
        masks.append(arrays["mask_BT"][:, None, None, :])
    if ids_BS is not None:
        masks.append(ids_BS[:, None, :, None] == arrays["segments_BS"][:, None, None, :])
    return functools.reduce(jnp.logical_and, masks) if masks else None
