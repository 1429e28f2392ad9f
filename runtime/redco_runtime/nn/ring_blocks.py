"""The blocks of a ring by the kernel of their devices: cuDNN's on NVIDIA's GPUs, splash attention on TPUs.

Of queries and keys of one part, in their order; or of keys that all come before. Forward a kernel gives the logarithms of its sums of weights;
backward it takes those of all blocks, and so gives the gradients of a block alone: functions that JAX has none of in public.
Shape letters: as in attention.py; C positions of a part.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ..layout.mesh import platform
from .attention import say, seen
from .kernels import BLOCK, KERNELS, LANES, Arrays, Rule


@dataclass(frozen=True)
class Place:
    """Where the queries and the keys of a block begin, of C positions each."""

    q: jax.Array
    k: jax.Array
    C: int
    arrays: Arrays
    past: bool  # whether all these keys come before all queries

    def mask(self, rule: Rule, first: jax.Array, size: int) -> jax.Array:
        """Return which of the keys are seen by `size` queries from the `first` of the block on, B11ST."""
        near = {name: _cut(x, self.k, self.C) for name, x in self.arrays.items()}
        ids = self.arrays.get("segments_BS")
        ids_BP = None if ids is None else _cut(ids, self.q + first, size)
        mask_B1ST = seen(rule, self.q + first - self.k, size, self.C, ids_BP, near)
        assert mask_B1ST is not None, "an order is one"
        return mask_B1ST[:, :, None]


def _cut(x: jax.Array, first: jax.Array, size: int) -> jax.Array:
    return jax.lax.dynamic_slice_in_dim(x, first, size, axis=1) if x.ndim else x


@dataclass(frozen=True)
class Blocks:
    """How blocks are computed.

    run: (rule, q, k, v, place) -> (o, logarithms of sums of weights BSN). pull: (rule, q, o, do, lse, k, v, place) -> (gradients
    of q, and of k and v beside each other); o, do, lse: of all blocks. packed: whether texts may share rows.
    """

    run: Callable[..., tuple[jax.Array, jax.Array]]
    pull: Callable[..., tuple[jax.Array, jax.Array]]
    packed: bool = True


def blocks_of(rule: Rule, arrays: Arrays, dtype: Any, C: int) -> Blocks | None:
    """Return the blocks of a kernel; None where there is none, or, which is said once, it does not do this."""
    if not (kernel := KERNELS.get(platform())):
        return None
    blocks = BLOCKS[platform()]
    limits = {
        "a window of positions": rule.window is not None,
        "texts packed in a row": not blocks.packed and "segments_BS" in arrays,
        f"parts of {C} positions, no multiple of {LANES}": C % LANES > 0,
    }
    try:
        kernel.check(rule, arrays, dtype)
        for limit, holds in limits.items():
            if holds:
                raise NotImplementedError(limit)
    except NotImplementedError as limit:
        say(
            f"attention in a ring: XLA's, slower than {kernel.title}, which does not do this: {limit}"
        )
        return None
    return blocks


def _cudnn(rule: Rule, q, k, v, place: Place) -> tuple[jax.Array, jax.Array]:
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    kind = cudnn.MaskType.NO_MASK if place.past else cudnn.MaskType.CAUSAL
    options: Any = {"scale": rule.scale, "mask_type": kind, "return_residual": True}
    o, lse_BNS = cudnn.dot_product_attention(q, k, v, **options)
    return o, lse_BNS.swapaxes(1, 2)


def _pull_cudnn(rule: Rule, q, o, do, lse, k, v, place: Place) -> tuple[jax.Array, jax.Array]:
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    kind = cudnn.MaskType.NO_MASK if place.past else cudnn.MaskType.CAUSAL
    none = jnp.zeros(0, q.dtype)  # of a bias, lengths, offsets and pages
    saved = (q, k, v, *[none] * 7, lse.swapaxes(1, 2), o)
    layout = cudnn.AttentionLayout.BTNH.value
    options = rule.scale, 42, 0.0, (False, False), kind, layout, None, True, False
    dq, *dkv = cudnn._dot_product_attention_bwd_rule(*options, saved, do)[:3]
    return dq, jnp.concatenate(dkv, axis=2)


def _splash(rule: Rule, q, k, v, place: Place) -> tuple[jax.Array, jax.Array]:
    kernel, ids = _splash_kernel(rule, q, place)
    o, (lse_BNS,) = jax.vmap(kernel)(q.swapaxes(1, 2) * rule.scale, *_heads_first(k, v), ids)
    return o.swapaxes(1, 2), lse_BNS.swapaxes(1, 2)


def _pull_splash(rule: Rule, q, o, do, lse, k, v, place: Place) -> tuple[jax.Array, jax.Array]:
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash

    kernel, ids = _splash_kernel(rule, q, place)

    def pull(q, k, v, ids, o, lse, do):
        saved = q, k, v, ids, None, o, lse, kernel.dq_mask_info, kernel.dkv_mask_info
        return splash._splash_attention_bwd(**kernel.kwargs, res=saved, do=do)[3:6]

    q, k, v, o, lse, do = _heads_first(q * rule.scale, k, v, o, lse, do)
    dq, *dkv = jax.vmap(pull)(q, k, v, ids, o, lse, do)
    dk, dv = _heads_first(*dkv)
    return dq.swapaxes(1, 2) * rule.scale, jnp.concatenate([dk, dv], axis=2)


def _splash_kernel(rule: Rule, q: jax.Array, place: Place) -> tuple[Any, Any]:
    """Return (kernel of one row, ids of the texts of queries and keys of all rows; None where it needs none)."""
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    B, C, N, _ = q.shape
    names = ("block_q", "block_kv", "block_q_dkv", "block_kv_dkv", "block_q_dq", "block_kv_dq")
    sizes: Any = dict.fromkeys(names, math.gcd(C, BLOCK))
    one = splash.FullMask((C, C)) if place.past else splash.CausalMask((C, C))
    kernel = splash.make_splash_mha(
        splash.MultiHeadMask([one] * N),
        head_shards=1,
        q_seq_shards=1,
        block_sizes=splash.BlockSizes(**sizes),
        attn_logits_soft_cap=rule.cap,
        save_residuals=True,
    )
    if not {"mask_BT", "segments_BS"} & {*place.arrays}:
        return kernel, None
    zeros = jnp.zeros((B, C), jnp.int32)
    near, far = (
        {name: _cut(x, first, C) for name, x in place.arrays.items()}
        for first in (place.q, place.k)
    )
    k_ids = jnp.where(far.get("mask_BT", True), far.get("segments_BS", zeros), -1)
    return kernel, splash.SegmentIds(near.get("segments_BS", zeros), k_ids)


def _heads_first(*arrays: jax.Array) -> list[jax.Array]:
    return [x.swapaxes(1, 2) for x in arrays]


BLOCKS = {"gpu": Blocks(_cudnn, _pull_cudnn, packed=False), "tpu": Blocks(_splash, _pull_splash)}
