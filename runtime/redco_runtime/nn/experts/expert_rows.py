"""The rows of experts: sorted by expert, in blocks, each group multiplied with kernels of its own.

Shape letters: T tokens, X experts of a token, E experts, D embed, F mlp, N rows of all tokens, X of
each, R the same sorted by expert, with room between, as many as one pass computes.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec as P

from ...base.messages import feature
from .expert_blocks import GPU, TPU
from .expert_passes import in_passes
from .grouped_matmul import multiply_groups

# Of an even share of rows, what a device has room for: the capacity of Switch (Fedus et al. 2021), whose rest is
# left out there, and computed in further passes here.
ROOM = 1.25
# (E, in, out), of each expert; in few bits, a tuple; or with an adapter, of adapters.expert_kernels.
Kernel = Any


@dataclass(frozen=True)
class Product:
    """How one kind of device multiplies groups of rows."""

    # (x_RD, kernels_EDF, rows_E, block) -> each group with its kernel; a group has a multiple of `block`.
    multiply: Callable[..., jax.Array]
    blocks: tuple[int, ...]  # how many rows a block may have, rising


PRODUCTS = {
    "gpu": Product(multiply_groups, GPU),
    "tpu": Product(lambda x, kernels, rows, block: jax.lax.ragged_dot(x, kernels, rows), TPU),
}


def by_groups(
    product, block, h_TD, share_TX, expert_TX, kernels, shared=1, wide=None, inner=None
) -> jax.Array:
    """Return x_TD, the sum over the experts that are here: of numbers 0 to E.

    product: as of Product, of one array. kernels: gate_EDF, up_EDF, down_EFD. shared: the devices that have
    experts each for these tokens, of which all may choose those of one.
    wide, inner: specs of arrays (R, D) and (R, F), where several devices are traced at once.
    """
    E = count_experts(kernels)
    expert_N = expert_TX.reshape(-1)
    here_N = (expert_N >= 0) & (expert_N < E)
    expert_N = jnp.where(here_N, expert_N, E)  # those of others come last
    rows_E = jnp.zeros(E, jnp.int32).at[expert_N].add(1, mode="drop")
    room_E = -(-rows_E // block) * block
    end_E = jnp.cumsum(room_E)
    shift_E = (end_E - room_E) - (jnp.cumsum(rows_E) - rows_E)
    sorted_N = jnp.argsort(jnp.argsort(expert_N, stable=True))
    place_N = sorted_N + shift_E.at[expert_N].get(mode="clip")
    R = most_rows(expert_N.size, E, block, shared)
    parts, form = jax.tree.flatten([*kernels], is_leaf=lambda x: isinstance(x, tuple))
    stored = [x if isinstance(x, tuple) else None for x in parts]  # which nothing learns
    fixed = end_E, jnp.where(here_N, place_N, -1), stored
    learned = [x for x in parts if not isinstance(x, tuple)]
    run = functools.partial(_one_pass, product, R, form, wide, inner)
    if shared == 1:
        return run(0, fixed, h_TD, share_TX, *learned)
    return in_passes(run, -(-end_E[-1] // R), fixed, h_TD, share_TX, *learned)


def most_rows(rows: int, E: int, block: int, shared: int) -> int:
    """Return R, what a pass has room for of `rows` that `shared` devices compute, with what fills up blocks."""
    most = rows if shared == 1 else min(rows, math.ceil(ROOM * rows / shared))
    return (most + E * (block - 1)) // block * block


def _one_pass(product, R, form, wide, inner, number, fixed, h_TD, share_TX, *learned):
    """Return x_TD, what rows `number` R to R more of experts add to the tokens."""
    (end_E, place_N, stored), (T, X) = fixed, share_TX.shape
    place_N, end_E = place_N - number * R, jnp.clip(end_E - number * R, 0, R)
    place_N = jnp.where((place_N >= 0) & (place_N < R), place_N, R)
    rows_E, others = jnp.diff(end_E, prepend=0), iter(learned)
    parts = (x if x is not None else next(others) for x in stored)
    gate_EDF, up_EDF, down_EFD = form.unflatten(parts)

    token_R = jnp.full(R, T).at[place_N].set(jnp.arange(T * X) // X, mode="drop")
    x_RD = lay(_spread(T, h_TD, token_R, place_N), wide)
    gate_RF, up_RF = (
        lay(checkpoint_name(product_of(product, x_RD, w, rows_E), "u_BSEF"), inner)
        for w in (gate_EDF, up_EDF)
    )
    a_RF = lay(checkpoint_name(jax.nn.silu(gate_RF) * up_RF, "a_BSEF"), inner)
    # Weighed here, and not last, so that the gradient of a share needs no y again.
    share_R = jnp.zeros(R, share_TX.dtype).at[place_N].set(share_TX.reshape(-1), mode="drop")
    y_RD = lay(product_of(product, a_RF * share_R[:, None], down_EFD, rows_E), wide)
    return _collect(T, y_RD, token_R, place_N)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _spread(T, h_TD, token_R, place_N):
    """Return x_RD, the token of each row, zeros for a row of none.

    Its derivative reads, as `_collect`; that of a gather adds row by row, by atomic operations.
    """
    return h_TD.at[token_R].get(mode="fill", fill_value=0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _collect(T, y_RD, token_R, place_N):
    """Return x_TD, of each token the sum of its rows; its derivative is `_spread`."""
    y_ND = y_RD.at[place_N].get(mode="fill", fill_value=0)
    return y_ND.reshape(T, -1, y_RD.shape[1]).sum(axis=1)


def _with_derivative(run, back):
    """Give one of these two the other as its derivative."""
    run.defvjp(
        lambda T, x, *places: (run(T, x, *places), places),
        lambda T, places, grads: (back(T, grads, *places), None, None),
    )


_with_derivative(_spread, _collect)
_with_derivative(_collect, _spread)


def product_of(multiply, x, kernel: Kernel, *others) -> jax.Array:
    """Return multiply(x, kernel, *others), of a kernel as it is, as it is stored, or with an adapter."""
    if hasattr(kernel, "product"):
        return kernel.product(multiply, x, *others)
    if isinstance(kernel, tuple):  # then that module is there
        stored = feature("adapters", "nn.stored_products")
        multiply = functools.partial(stored.multiply_stored, multiply)
    return multiply(x, kernel, *others)


def count_experts(kernels) -> int:
    """Return E of kernels, those of the experts that are here."""
    return jax.tree.leaves(kernels)[0].shape[0]


def lay(x: jax.Array, spec: P | None) -> jax.Array:
    """Return x in the layout `spec`; as it is for None."""
    return x if spec is None else jax.lax.with_sharding_constraint(x, spec)
