"""The kernels of attention: cuDNN's on NVIDIA's GPUs, splash attention on TPUs.

A kernel runs on each device's own rows and heads, forward and backward: nothing is sent around it.
Shape letters: as in attention.py.
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec as P

from ..layout.activations import spec_of
from ..layout.mesh import axes_of, free_axes
from .packed_rows import most_texts

# Of a TPU: its kernel takes queries and keys in multiples of LANES; in blocks of BLOCK, as MaxText.
LANES, BLOCK = 128, 512
# What a kernel's backward pass needs of the forward one, besides its inputs: for jax.checkpoint.
SAVED_AS = "attention"
Arrays = Mapping[str, jax.Array]  # mask_BT, segments_BS, windowed: of `attention`, if there


@dataclass(frozen=True)
class Rule:
    """What holds for every query: as in `attention`."""

    causal: bool
    window: int | None
    cap: float | None
    scale: float


@dataclass(frozen=True)
class Kernel:
    """A kernel of one kind of device. Both raise NotImplementedError, which names what it does not do."""

    title: str
    run: Callable[..., jax.Array]  # of a rule, queries, keys, values and `Arrays`
    check: Callable[[Rule, Arrays, Any], None]  # of a rule, `Arrays` and a dtype


def run_kernel(kernel: Kernel, layout: str, rule: Rule, q_BSNH, k_BTKH, v_BTKH, arrays: Arrays):
    """Return o_BSNH by a kernel, on each device's part of the queries: their spec is that of `layout`.

    Raises NotImplementedError, which names what the kernel does not do.
    """
    kernel.check(rule, arrays, q_BSNH.dtype)
    mesh = free_axes()
    batch, _, heads, _ = map(axes_of, spec_of(q_BSNH.shape, layout))
    parts = math.prod(mesh[axis] for axis in heads)
    if k_BTKH.shape[2] % parts:  # several devices share one: each query head has its own then
        copies = q_BSNH.shape[2] // k_BTKH.shape[2]
        k_BTKH, v_BTKH = (jnp.repeat(x, copies, axis=2) for x in (k_BTKH, v_BTKH))
    own, spec = P((*mesh,)), P(batch or None, None, heads or None, None)
    specs = (spec, spec, spec, {name: P(*spec[: min(x.ndim, 1)]) for name, x in arrays.items()})
    split = functools.partial(jax.shard_map, axis_names={*mesh}, check_vma=False)
    run = functools.partial(kernel.run, rule)
    pulls = []  # the structure of what the backward pass needs

    # The derivative of a shard_map would add up, over the axes that split neither rows nor heads,
    # gradients that are equal there. So it is taken within, and what it needs stays where it is.
    def forward(q, k, v, arrays):
        o, pull = jax.vjp(lambda q, k, v: run(q, k, v, arrays), q, k, v)
        leaves, structure = jax.tree.flatten(pull)
        pulls.append(structure)
        return o, [x[None] for x in leaves]

    def backward(leaves, do):
        return jax.tree.unflatten(pulls[-1], [x[0] for x in leaves])(do)

    pull = split(backward, in_specs=(own, spec), out_specs=(spec, spec, spec))
    attend = jax.custom_vjp(split(run, in_specs=specs, out_specs=spec))
    attend.defvjp(
        split(forward, in_specs=specs, out_specs=(spec, own)),
        lambda leaves, do: (*pull(leaves, do), None),
    )
    return attend(q_BSNH, k_BTKH, v_BTKH, arrays)


def _check_cudnn(rule: Rule, arrays: Arrays, dtype: Any) -> None:
    kind = jax.sharding.get_abstract_mesh().abstract_device.device_kind
    here = [d.compute_capability for d in jax.local_devices() if d.device_kind == kind]
    limits = {
        "a cap on scores": rule.cap is not None,
        "padding in a causal order": rule.causal and "mask_BT" in arrays,
        "padding beside texts packed in a row": {"mask_BT", "segments_BS"} <= {*arrays},
        f"{dtype}, only bfloat16 and float16": dtype not in (jnp.bfloat16, jnp.float16),
        # Before Ampere; or AMD's, whose capability is no number. Unknown where no such device is.
        kind: any(not c[:1].isdecimal() or float(c) < 8 for c in here),
        f"texts packed in a row, on {kind}": "segments_BS" in arrays
        and any(float(c) < 9 for c in here),
    }
    for limit, holds in limits.items():
        if holds:
            raise NotImplementedError(limit)


def _cudnn(rule: Rule, q_BSNH, k_BTKH, v_BTKH, arrays: Arrays) -> jax.Array:
    if "segments_BS" in arrays:
        return _packed_cudnn(rule, q_BSNH, k_BTKH, v_BTKH, arrays)
    options = {"scale": rule.scale, "is_causal": rule.causal, "implementation": "cudnn"}
    if "mask_BT" in arrays:
        # It wants the number of keys: those that are seen go first, for their order says nothing.
        mask_BT = arrays["mask_BT"]
        order_BT11 = jnp.argsort(~mask_BT, axis=1, stable=True)[:, :, None, None]
        k_BTKH, v_BTKH = (jnp.take_along_axis(x, order_BT11, axis=1) for x in (k_BTKH, v_BTKH))
        options["key_value_seq_lengths"] = jnp.maximum(1, mask_BT.sum(axis=1, dtype=jnp.int32))

    def within(window):
        near = None if window is None else (window - 1, 0)
        attend = functools.partial(jax.nn.dot_product_attention, local_window_size=near, **options)
        return _name_residuals(attend)

    return _choose(within, rule, arrays, (q_BSNH, k_BTKH, v_BTKH))


def _packed_cudnn(rule: Rule, q_BSNH, k_BSKH, v_BSKH, arrays: Arrays) -> jax.Array:
    # No public function of JAX takes texts packed in a row.
    from jax._src.cudnn.fused_attention_stablehlo import MaskType, dot_product_attention

    if jax.__version_info__ < (0, 11):  # it counts the heads of queries where keys lie
        copies = q_BSNH.shape[2] // k_BSKH.shape[2]
        k_BSKH, v_BSKH = (jnp.repeat(x, copies, axis=2) for x in (k_BSKH, v_BSKH))
    starts_BM, lengths_BM, fits_B = text_table(arrays["segments_BS"])
    kind = MaskType.PADDING_CAUSAL if rule.causal else MaskType.PADDING

    def within(window):
        attend = functools.partial(
            dot_product_attention,
            q_seqlen=lengths_BM,
            kv_seqlen=lengths_BM,
            q_offsets=starts_BM,
            kv_offsets=starts_BM,
            scale=rule.scale,
            mask_type=kind,
            sliding_window_length=window,
        )
        return _name_residuals(attend)

    o_BSNH = _choose(within, rule, arrays, (q_BSNH, k_BSKH, v_BSKH))
    return jnp.where(fits_B[:, None, None, None], o_BSNH, jnp.nan)


def text_table(segments_BS: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return where the texts of each row begin, how long they are, and whether all of a row are there.

    segments_BS: as of `attention`. starts_BM has one place more than lengths_BM; -1 is no text. A row
    has `most_texts` and its padding.
    """
    S = segments_BS.shape[1]
    most = min(S, most_texts(S) + 1)
    begins_BS = jnp.diff(segments_BS, axis=1, prepend=segments_BS[:, :1] - 1) != 0
    places_BS = jnp.sort(jnp.where(begins_BS, jnp.arange(S, dtype=jnp.int32)[None, :], S), axis=1)
    starts_BM = jnp.pad(places_BS, ((0, 0), (0, 1)), constant_values=S)[:, : most + 1]
    lengths_BM = jnp.where(starts_BM[:, :-1] < S, jnp.diff(starts_BM, axis=1), -1)
    none = (starts_BM == S) | (jnp.arange(most + 1) == most)[None, :]
    return jnp.where(none, -1, starts_BM), lengths_BM, begins_BS.sum(axis=1) <= most


def _name_residuals(attend: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Return attend(q, k, v), which names what its backward pass needs besides its inputs."""
    pulls = []  # as in run_kernel

    def forward(*inputs):
        o, pull = jax.vjp(attend, *inputs)
        leaves, structure = jax.tree.flatten(pull)
        pulls.append(structure)
        names = {id(x): x for x in inputs} | {id(o): checkpoint_name(o, SAVED_AS)}
        return names[id(o)], [names.get(id(x), checkpoint_name(x, SAVED_AS)) for x in leaves]

    def backward(leaves, do):
        return jax.tree.unflatten(pulls[-1], leaves)(do)

    named = jax.custom_vjp(lambda *inputs: attend(*inputs))
    named.defvjp(forward, backward)
    return named


def _splash(rule: Rule, q_BSNH, k_BTKH, v_BTKH, arrays: Arrays) -> jax.Array:
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    (B, S, N, _), T = q_BSNH.shape, k_BTKH.shape[1]
    q_ids_BS = arrays.get("segments_BS", jnp.zeros((B, S), jnp.int32))
    k_ids_BT = arrays.get("segments_BS", jnp.zeros((B, T), jnp.int32))
    if "mask_BT" in arrays:
        k_ids_BT = jnp.where(arrays["mask_BT"], k_ids_BT, -1)

    def pad(x, value=0):
        ends = [(0, -x.shape[1] % LANES if dim == 1 else 0) for dim in range(x.ndim)]
        return jnp.pad(x, ends, constant_values=value)

    q, k, v = (pad(x).swapaxes(1, 2) for x in (q_BSNH * rule.scale, k_BTKH, v_BTKH))
    shape = (q.shape[2], k.shape[2])
    bq, bk = (math.gcd(size, BLOCK) for size in shape)
    sizes = splash.BlockSizes(
        block_q=bq,
        block_kv=bk,
        block_q_dkv=bq,
        block_kv_dkv=bk,
        block_q_dq=bq,
        block_kv_dq=bk,
    )

    def within(window):
        near = (None if window is None else window - 1, 0)
        one = splash.LocalMask(shape, near, 0) if rule.causal else splash.FullMask(shape)
        kernel = splash.make_splash_mha(
            splash.MultiHeadMask([one] * N),
            head_shards=1,
            q_seq_shards=1,
            block_sizes=sizes,
            attn_logits_soft_cap=rule.cap,
            residual_checkpoint_name=SAVED_AS,
        )
        return jax.vmap(kernel)  # ids of None have no leaves to map

    needed = {"mask_BT", "segments_BS"} & {*arrays} or (T % LANES and not rule.causal)
    ids = splash.SegmentIds(pad(q_ids_BS), pad(k_ids_BT, -1)) if needed else None
    return _choose(within, rule, arrays, (q, k, v, ids)).swapaxes(1, 2)[:, :S]


def _choose(within: Callable[[int | None], Any], rule: Rule, arrays: Arrays, args) -> jax.Array:
    """Return within(window)(*args), or within(None)(*args) where the window does not hold."""
    if rule.window is None or "windowed" not in arrays:
        return within(rule.window)(*args)
    return jax.lax.cond(arrays["windowed"], within(rule.window), within(None), *args)


KERNELS = {
    "gpu": Kernel("cuDNN's", _cudnn, _check_cudnn),
    "tpu": Kernel("the TPU's", _splash, lambda *_: None),
}
