"""A mixture of experts: each token is computed by the few gated MLPs that its router chose, by all of these.

On an accelerator the rows of an expert lie together, and a kernel multiplies each group with its
own matrix: the work that was asked for, and no token is left out. Elsewhere every expert computes
every token, by the formula.

Shape letters: B batch, S sequence, T tokens, X experts of a token, E experts, D embed, F mlp.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint
from jax.sharding import PartitionSpec as P

from ...layout.activations import axes_run_over, lay_out, spec_of
from ...layout.mesh import axes_of, free_axes, on_parts, platform
from .expert_blocks import block_rows
from .expert_exchange import Axes, Routes
from .expert_rows import PRODUCTS, Kernel, Product, by_groups, count_experts, lay, product_of

# The axes that split a dim of each parameter: of kernels E, or D, where they divide that.
OVER = ("fsdp", "context")


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
    model's "h_BSD", "x_BSD" and, between two kernels, "u_BSEF". In a shard_map over the axis that
    splits experts a device has rows of its own, and E experts of its own, which all of these meet.
    """
    kernels = gate_EDF, up_EDF, down_EFD
    mesh, around = jax.sharding.get_abstract_mesh(), axes_run_over("u_BSEF", 2)
    product = PRODUCTS.get(platform())
    if mesh.abstract_device is None and not mesh.empty:
        run = _counted
    elif product is None:
        run = functools.partial(_by_formula, around)
    else:
        run = functools.partial(_on_devices, product, around)
    return run(h_BSD, shares_BSE, expert_BSX, *kernels)


def _by_formula(around: Axes, h_BSD, shares_BSE, expert_BSX, *kernels: Kernel) -> jax.Array:
    """Return x_BSD: every expert computes every token."""
    if not around:
        return _formula(h_BSD, shares_BSE, expert_BSX, *kernels)

    def every(x):  # in float32: of a sum in bfloat16 over some of the axes, XLA aborts on a CPU
        wide = x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x
        return jax.lax.all_gather(wide, around, tiled=True).astype(x.dtype)

    h_BSD, shares_BSE, expert_BSX = map(every, (h_BSD, shares_BSE, expert_BSX))
    E = count_experts(kernels)
    first = jax.lax.axis_index(around) * E
    shares_BSE = jax.lax.dynamic_slice_in_dim(shares_BSE, first, E, axis=2)
    x_BSD = _formula(h_BSD, shares_BSE, expert_BSX - first, *kernels)
    wide_BSD = jax.lax.psum_scatter(x_BSD.astype(jnp.float32), around, tiled=True)
    return wide_BSD.astype(x_BSD.dtype)


def _counted(h_BSD, shares_BSE, expert_BSX, *kernels: Kernel) -> jax.Array:
    """Return x_BSD by a program whose FLOPs and bytes are those of all devices; it is not run."""
    rows, positions, of_experts, of_mlp = _axes(h_BSD, kernels)
    tokens = h_BSD, _shares_of(shares_BSE, expert_BSX), expert_BSX
    h_TD, share_TX, expert_TX = (x_BSN.reshape(-1, x_BSN.shape[2]) for x_BSN in tokens)
    kernels = jax.tree.map(lay, kernels, _kernel_specs(kernels, of_experts, of_mlp))
    layouts = {"wide": P(rows + positions, None), "inner": P(rows + positions, of_mlp)}
    x_TD = by_groups(jax.lax.ragged_dot, 1, h_TD, share_TX, expert_TX, kernels, **layouts)
    return x_TD.reshape(h_BSD.shape)


def _on_devices(
    product: Product, around: Axes, h_BSD, shares_BSE, expert_BSX, *kernels: Kernel
) -> jax.Array:
    """Return x_BSD, each device the products of the rows that its experts were chosen for."""
    rows, positions, of_experts, of_mlp = _axes(h_BSD, kernels)
    here = _with_rows(spec_of(h_BSD.shape, "h_BSD"), rows)
    there = _with_rows(spec_of(h_BSD.shape, "x_BSD"), rows)
    routes = Routes(rows + positions, of_experts + of_mlp, around)
    axes = around + of_experts
    shared = math.prod(jax.sharding.get_abstract_mesh().shape[axis] for axis in axes)
    parts, by_expert = _parts(h_BSD.shape[2], count_experts(kernels), routes.rows, of_experts)
    inner = (0, 0, 0) if by_expert else (1, 1, 2)  # the dim that is whole before a product

    def own(h_1BSD, share_1BSX, expert_1BSX, *kernels):
        h_TD, share_TX, expert_TX = (
            x.reshape(-1, x.shape[3]) for x in (h_1BSD, share_1BSX, expert_1BSX)
        )
        kernels = tuple(map(functools.partial(_gather_kernel, parts), kernels, inner))
        first = jax.lax.axis_index(axes) * count_experts(kernels) if axes else 0
        block = block_rows(product.blocks, expert_TX.size // shares_BSE.shape[2])
        multiply = functools.partial(product.multiply, block=block)
        x_TD = by_groups(multiply, block, h_TD, share_TX, expert_TX - first, kernels, shared)
        return x_TD.reshape(h_1BSD.shape)

    def anywhere(leaf):
        # Else the partitioner sends kernels before they are cast, in float32.
        return jax.lax.with_sharding_constraint(leaf, P(*(P.UNCONSTRAINED for _ in leaf.shape)))

    kernels = jax.tree.map(anywhere, kernels)
    every = (routes.devices,) * 3
    specs = (*every, *_kernel_specs(kernels, of_experts, of_mlp, parts, by_expert))
    run = on_parts(own, {*free_axes()}, in_specs=specs, out_specs=routes.devices)
    tokens = h_BSD, _shares_of(shares_BSE, expert_BSX), expert_BSX
    sent = (routes.dispatch(x, here) for x in tokens)
    return routes.combine(run(*sent, *kernels), there)


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
        lay_out(product_of(_to_experts, h_BSD, w), "u_BSEF") for w in (gate_EDF, up_EDF)
    )
    a_BSEF = lay_out(jax.nn.silu(gate_BSEF) * up_BSEF, "a_BSEF")
    share_BSE = shares_BSE * chosen_BSE
    return product_of(_from_experts, a_BSEF * share_BSE[..., None], down_EFD)


def _to_experts(h_BSD, kernels_EDF):
    return jnp.einsum("bsd,edf->bsef", h_BSD, kernels_EDF)


def _from_experts(a_BSEF, kernels_EFD):
    return jnp.einsum("bsef,efd->bsd", a_BSEF, kernels_EFD)


def _shares_of(shares_BSE, expert_BSX) -> jax.Array:
    """Return share_BSX, the shares of the experts that were chosen."""
    numbers_111E = jnp.arange(shares_BSE.shape[2])[None, None, None, :]
    chosen_BSXE = expert_BSX[..., None] == numbers_111E
    return jnp.where(chosen_BSXE, shares_BSE[:, :, None, :], 0).sum(axis=3)


def _axes(h_BSD, kernels) -> tuple[Axes, Axes, Axes, Axes]:
    """Return the axes that split rows, positions, experts, and what is inside of these."""
    E, *_, F = jax.tree.leaves(kernels)[0].shape
    rows, positions, experts, mlp = map(axes_of, spec_of((*h_BSD.shape[:2], E, F), "u_BSEF"))
    return rows, positions, experts, mlp


def _parts(D: int, E: int, rows: Axes, of_experts: Axes) -> tuple[Axes, bool]:
    """Return the axes that split kernels besides, where their dims divide, and whether they do E, as plans have it.

    A gather of the first dim moves no row; one of D is a transposition too, a third of what Qwen3-MoE's experts
    read and write on 32 H100. E: experts that are here.
    """
    sizes = free_axes()
    apart = math.prod(sizes[axis] for axis in of_experts)
    over = tuple(axis for axis in OVER if axis in rows and sizes[axis] > 1)
    parts = math.prod(sizes[axis] for axis in over)
    by_expert = bool(over) and E % (apart * parts) == 0
    return (over if by_expert or D % parts == 0 else ()), by_expert


def _kernel_specs(
    kernels, of_experts: Axes, of_mlp: Axes, parts: Axes = (), by_expert: bool = False
) -> tuple:
    """Return the specs of gate, up and down, D or E split over `parts` but where they are stored in few bits.

    of_experts, of_mlp: the axes that split E and F.
    """

    def spec(leaf, last, own):
        dims = (None if by_expert else own, *(None,) * (leaf.ndim - 3), of_mlp)
        of_each = (*of_experts, *(own or ())) if by_expert else of_experts
        return P(of_each, *(dims[::-1] if last else dims))

    def specs(kernel, last):
        if hasattr(kernel, "specs"):
            return kernel.specs(specs, P(of_experts), P(of_experts, None, of_mlp), last)
        own = None if isinstance(kernel, tuple) else parts
        return jax.tree.map(functools.partial(spec, last=last, own=own), kernel)

    return tuple(map(specs, kernels, (False, False, True)))


def _with_rows(spec: P, rows: Axes) -> P:
    """Return the spec of (B, S, D), rows split over `rows` at least, as a product of them needs it."""
    own = axes_of(spec[0])
    return P(own if own[: len(rows)] == rows else rows, *spec[1:])


def _gather_kernel(axes: Axes, kernel: Kernel, dim: int) -> Kernel:
    """Return a kernel with the dim whole that `axes` split; one in few bits is whole.

    Sent dim first, XLA for GPUs would have it so in each layer, and copy the kernels of all of them, in
    float32, before the loop over them. So what is sent has the order that it is stored in.
    """
    if hasattr(kernel, "of_base"):
        return kernel.of_base(functools.partial(_gather_kernel, axes, dim=dim))
    if not axes or isinstance(kernel, tuple):
        return kernel
    stored = with_layout_constraint(kernel, Layout(tuple(range(kernel.ndim))))
    return jax.lax.all_gather(stored, axes, axis=dim, tiled=True)
