"""A mixture of experts: each token is computed by the few gated MLPs that its router chose, by all of these.

On an accelerator the rows of an expert lie together, and a kernel multiplies each group with its
own matrix: the work that was asked for, and no token is left out. Elsewhere every expert computes
every token, by the formula.

Shape letters: B batch, S sequence, T tokens, X experts of a token, E experts, D embed, F mlp,
N rows of all tokens, X of each, R the same sorted by expert, with room between.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.layout import Layout, with_layout_constraint
from jax.sharding import PartitionSpec as P

from redco_runtime.activations import lay_out, spec_of
from redco_runtime.groups import BLOCKS, multiply_groups
from redco_runtime.matrices import Stored, multiply_stored
from redco_runtime.mesh import axes_of, free_axes

Axes = tuple[str, ...]
Kernel = jax.Array | Stored  # (E, in, out), of each expert; or as it is stored in few bits
FSDP = "fsdp"  # the axis that splits a dim of each parameter: of kernels D, where it divides that


@dataclass(frozen=True)
class Product:
    """How one kind of device multiplies groups of rows.

    multiply: (x_RD, kernels_EDF, rows_E, block) -> the product of each group with its kernel; a group
        has rows_E, a multiple of `block`.
    blocks: how many rows a block may have, rising.
    """

    multiply: Callable[..., jax.Array]
    blocks: tuple[int, ...]


PRODUCTS = {
    "gpu": Product(multiply_groups, BLOCKS),
    # libtpu multiplies tiles of 128 rows, and one in which groups meet once for each of them: as many as
    # rows / 128 + E - 1. In blocks of that size none meet.
    "tpu": Product(lambda x, kernels, rows, block: jax.lax.ragged_dot(x, kernels, rows), (1, 128)),
}
# Of an even share of rows, a block has so little that those that fill up the last are an eighth, in the
# mean over sizes of groups: 1.06 to 1.12 of the rows of Mixtral and Qwen3-MoE, at most 1.25.
SHARE = 4


def experts(
    h_BSD: jax.Array,
    shares_BSE: jax.Array,
    expert_BSX: jax.Array,
    gate_EDF: Kernel,
    up_EDF: Kernel,
    down_EFD: Kernel,
) -> jax.Array:
    """Return x_BSD, for each token the sum of what its experts make of it, each times its share.

    shares_BSE: of all experts. expert_BSX: those that were chosen. The kernels are of the dtype that
    is computed in, or stored in few bits, and restored where they multiply. The layout is that of the
    model's "h_BSD", "x_BSD" and, between two kernels, "u_BSEF".
    """
    kernels = (gate_EDF, up_EDF, down_EFD)
    mesh = jax.sharding.get_abstract_mesh()
    (B, S, D), (E, *_, F) = h_BSD.shape, jax.tree.leaves(gate_EDF)[0].shape
    entries = spec_of((B, S, E, F), "u_BSEF")
    rows, _, of_experts, of_mlp = (axes_of(entry) for entry in entries)

    if mesh.abstract_device is None and not mesh.empty:  # FLOPs and bytes are counted
        share_BSX = jnp.take_along_axis(shares_BSE, expert_BSX, axis=2)
        h_TD, share_TX, expert_TX = (x.reshape(B * S, -1) for x in (h_BSD, share_BSX, expert_BSX))
        kernels = jax.tree.map(_lay, kernels, _kernel_specs(kernels, of_experts, of_mlp))
        tokens = (h_TD, share_TX, expert_TX)
        layouts = {"wide": P(rows, None), "inner": P(rows, of_mlp)}
        x_TD = _grouped(jax.lax.ragged_dot, 1, *tokens, *kernels, **layouts)
        return x_TD.reshape(h_BSD.shape)
    product = None if mesh.empty else PRODUCTS.get(mesh.abstract_device.platform)
    if product is None:
        return _formula(h_BSD, shares_BSE, expert_BSX, *kernels)
    here = _with_rows(spec_of(h_BSD.shape, "h_BSD"), rows)
    there = _with_rows(spec_of(h_BSD.shape, "x_BSD"), rows)

    own = {axis for entry in here for axis in axes_of(entry)}
    within = of_experts + of_mlp
    parts = tuple(axis for axis in rows if axis == FSDP and D % free_axes()[axis] == 0)
    others = tuple(axis for axis in rows if axis not in parts)

    def whole(kernel, dim):
        if isinstance(kernel, tuple):
            return jax.tree.map(lambda leaf: _vary(leaf, rows), kernel)
        return _gather_kernel(_vary(kernel, others), parts, dim)

    def split(h_BSD, shares_BSE, expert_BSX, *kernels):
        # Gradients are summed over the devices that have a part of the work on the same numbers.
        h_BSD = _vary(h_BSD, tuple(axis for axis in within if axis not in own))
        share_BSX = jnp.take_along_axis(shares_BSE, expert_BSX, axis=2)
        h_TD, share_TX, expert_TX = (
            _gather(x, here, rows).reshape(-1, x.shape[2]) for x in (h_BSD, share_BSX, expert_BSX)
        )
        kernels = tuple(map(whole, kernels, (1, 1, 2)))
        first = jax.lax.axis_index(of_experts) * _count(kernels) if of_experts else 0
        block = block_rows(product, expert_TX.size // E)
        multiply = functools.partial(product.multiply, block=block)
        x_TD = _grouped(multiply, block, h_TD, share_TX, expert_TX - first, *kernels)
        return _add_up(x_TD.reshape(-1, S, h_BSD.shape[2]), within, there)

    def anywhere(leaf):
        # Else the partitioner sends kernels before they are cast, in float32.
        return jax.lax.with_sharding_constraint(leaf, P(*(P.UNCONSTRAINED for _ in leaf.shape)))

    kernels = jax.tree.map(anywhere, kernels)
    specs = (here, here, here, *_kernel_specs(kernels, of_experts, of_mlp, parts))
    run = jax.shard_map(split, axis_names={*free_axes()}, in_specs=specs, out_specs=there)
    return run(h_BSD, shares_BSE, expert_BSX, *kernels)


def expert_load(odds_BSE: jax.Array, expert_BSX: jax.Array, mask_BS: jax.Array) -> jax.Array:
    """Return load_B2E of a layer: of a row's tokens, how many chose an expert, and the sum of its odds.

    odds_BSE: of all experts, float32. expert_BSX: those that were chosen. mask_BS: the tokens that count.
    """
    chosen_BSE = jax.nn.one_hot(expert_BSX, odds_BSE.shape[2]).sum(axis=2)
    both = (jnp.where(mask_BS[..., None], x_BSE, 0).sum(axis=1) for x_BSE in (chosen_BSE, odds_BSE))
    return jnp.stack([*both], axis=1)


def router_loss(load_LB2E: jax.Array, mask_BS: jax.Array) -> jax.Array:
    """Return how unevenly the experts are used: X where evenly, up to E where all tokens have the same.

    E times the sum over experts of the tokens that chose it times its odds, both means over tokens
    and layers (Fedus et al. 2022, equations 4 to 6; `load_balancing_loss_func` of transformers). The
    tokens are those of the whole batch on all devices; of several micro-batches, each has its own.
    """
    L, _, _, E = load_LB2E.shape
    sums = load_LB2E.sum(axis=(0, 1)), L * mask_BS.sum(dtype=jnp.float32)
    if axes := jax.sharding.get_abstract_mesh().manual_axes:  # a device has its own rows
        sums = jax.lax.psum(sums, axes)
    load_2E = sums[0] / jnp.maximum(sums[1], 1)
    return E * (load_2E[0] * load_2E[1]).sum()


def _formula(h_BSD, shares_BSE, expert_BSX, gate_EDF, up_EDF, down_EFD) -> jax.Array:
    """Return x_BSD: every expert computes every token, and those that were not chosen have no share."""
    chosen_BSE = jax.nn.one_hot(expert_BSX, shares_BSE.shape[2], dtype=shares_BSE.dtype).sum(axis=2)
    gate_BSEF, up_BSEF = (
        lay_out(_product(_to_experts, h_BSD, w), "u_BSEF") for w in (gate_EDF, up_EDF)
    )
    a_BSEF = lay_out(jax.nn.silu(gate_BSEF) * up_BSEF, "a_BSEF")
    share_BSE = shares_BSE * chosen_BSE
    return _product(_from_experts, a_BSEF * share_BSE[..., None], down_EFD)


def _to_experts(h_BSD, kernels_EDF):
    return jnp.einsum("bsd,edf->bsef", h_BSD, kernels_EDF)


def _from_experts(a_BSEF, kernels_EFD):
    return jnp.einsum("bsef,efd->bsd", a_BSEF, kernels_EFD)


def _product(multiply, x, kernel: Kernel, *others) -> jax.Array:
    """Return multiply(x, kernel, *others), of a kernel as it is or as it is stored."""
    multiply = (
        functools.partial(multiply_stored, multiply) if isinstance(kernel, tuple) else multiply
    )
    return multiply(x, kernel, *others)


def _count(kernels) -> int:
    """Return E of kernels, those of the experts that are here."""
    return jax.tree.leaves(kernels)[0].shape[0]


def room(rows: int, count: int) -> int:
    """Return how many rows fill up the blocks of `count` experts at most, where they have `rows` together."""
    return count * (max(block_rows(product, rows // count) for product in PRODUCTS.values()) - 1)


def block_rows(product: Product, even: int) -> int:
    """Return the rows of a block where an expert has `even` rows if all have as many."""
    least, *others = product.blocks
    return max([least, *(block for block in others if block * SHARE <= even)])


def _grouped(
    multiply, block, h_TD, share_TX, expert_TX, gate_EDF, up_EDF, down_EFD, wide=None, inner=None
) -> jax.Array:
    """Return x_TD, the sum over the experts that are here: of numbers 0 to E.

    wide, inner: specs of arrays (R, D) and (R, F), where several devices are traced at once.
    """
    E, D = _count(gate_EDF), h_TD.shape[1]
    expert_N = expert_TX.reshape(-1)
    here_N = (expert_N >= 0) & (expert_N < E)
    expert_N = jnp.where(here_N, expert_N, E)  # those of others come last
    rows_E = jnp.zeros(E, jnp.int32).at[expert_N].add(1, mode="drop")
    room_E = -(-rows_E // block) * block
    shift_E = (jnp.cumsum(room_E) - room_E) - (jnp.cumsum(rows_E) - rows_E)
    sorted_N = jnp.argsort(jnp.argsort(expert_N, stable=True))
    R = (expert_N.size + E * (block - 1)) // block * block
    place_N = jnp.where(here_N, sorted_N + shift_E.at[expert_N].get(mode="clip"), R)

    T, X = share_TX.shape
    token_R = jnp.full(R, T).at[place_N].set(jnp.arange(T * X) // X, mode="drop")
    x_RD = _lay(h_TD.at[token_R].get(mode="fill", fill_value=0), wide)
    gate_RF, up_RF = (
        _lay(checkpoint_name(_product(multiply, x_RD, w, room_E), "u_BSEF"), inner)
        for w in (gate_EDF, up_EDF)
    )
    a_RF = _lay(checkpoint_name(jax.nn.silu(gate_RF) * up_RF, "a_BSEF"), inner)
    # Weighed here, and not last, so that the gradient of a share needs no y again.
    share_R = jnp.zeros(R, share_TX.dtype).at[place_N].set(share_TX.reshape(-1), mode="drop")
    y_RD = _lay(_product(multiply, a_RF * share_R[:, None], down_EFD, room_E), wide)
    y_ND = y_RD.at[place_N].get(mode="fill", fill_value=0)
    return y_ND.reshape(T, X, D).sum(axis=1)


def _kernel_specs(kernels, of_experts: Axes, of_mlp: Axes, parts: Axes = ()) -> tuple:
    """Return the specs of gate, up and down, D split over `parts` but where they are stored in few bits.

    of_experts, of_mlp: the axes that split E and F.
    """

    def spec(leaf, last, own):
        dims = (own, *(None,) * (leaf.ndim - 3), of_mlp)
        return P(of_experts, *(dims[::-1] if last else dims))

    def specs(kernel, last):
        own = None if isinstance(kernel, tuple) else parts
        return jax.tree.map(functools.partial(spec, last=last, own=own), kernel)

    return tuple(map(specs, kernels, (False, False, True)))


def _lay(x: jax.Array, spec: P | None) -> jax.Array:
    return x if spec is None else jax.lax.with_sharding_constraint(x, spec)


def _with_rows(spec: P, rows: Axes) -> P:
    """Return the spec of (B, S, D), rows split over `rows` at least, as a product of them needs it."""
    own = axes_of(spec[0])
    return P(own if own[: len(rows)] == rows else rows, *spec[1:])


def _vary(x: jax.Array, axes: Axes) -> jax.Array:
    """Return x, which is the same over these axes, for what is not: its gradient is a sum over them."""
    return jax.lax.pcast(x, axes, to="varying") if axes else x


def _gather(x: jax.Array, spec: P, rows: Axes) -> jax.Array:
    """Return x with the dims whole that `spec` splits, but for the first, split over `rows`."""
    for dim, entry in enumerate(spec):
        axes = tuple(axis for axis in axes_of(entry) if axis not in rows)
        if axes:
            x = jax.lax.all_gather(x, axes, axis=dim, tiled=True)
    return x


def _gather_kernel(x: jax.Array, axes: Axes, dim: int) -> jax.Array:
    """Return a kernel with the dim whole that `axes` split.

    Sent dim first, XLA for GPUs would have it so in each layer, and copy the kernels of all of them, in
    float32, before the loop over them. So what is sent has the order that it is stored in.
    """
    if not axes:
        return x
    stored = with_layout_constraint(x, Layout(tuple(range(x.ndim))))
    return jax.lax.all_gather(stored, axes, axis=dim, tiled=True)


def _add_up(x: jax.Array, over: Axes, spec: P) -> jax.Array:
    """Return the sum over the axes `over`; a device has the part that `spec` says."""
    for dim, entry in enumerate(spec):
        for axis in axes_of(entry):
            if axis in over:
                x = jax.lax.psum_scatter(x, axis, scatter_dimension=dim, tiled=True)
                over = tuple(name for name in over if name != axis)
    return jax.lax.psum(x, over) if over else x
