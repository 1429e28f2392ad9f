"""The rows of experts: sorted by expert, in blocks, each group multiplied with kernels of its own.

Shape letters: T tokens, X experts of a token, E experts, D embed, F mlp, N rows of all tokens, X of
each, R the same sorted by expert, with room between.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec as P

from ..stored_products import Stored, multiply_stored
from .expert_blocks import GPU, TPU
from .grouped_matmul import multiply_groups

Kernel = jax.Array | Stored  # (E, in, out), of each expert; or as it is stored in few bits


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
    "gpu": Product(multiply_groups, GPU),
    "tpu": Product(lambda x, kernels, rows, block: jax.lax.ragged_dot(x, kernels, rows), TPU),
}


def by_groups(
    multiply, block, h_TD, share_TX, expert_TX, gate_EDF, up_EDF, down_EFD, wide=None, inner=None
) -> jax.Array:
    """Return x_TD, the sum over the experts that are here: of numbers 0 to E.

    wide, inner: specs of arrays (R, D) and (R, F), where several devices are traced at once.
    """
    E, D = count_experts(gate_EDF), h_TD.shape[1]
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
    x_RD = lay(h_TD.at[token_R].get(mode="fill", fill_value=0), wide)
    gate_RF, up_RF = (
        lay(checkpoint_name(product_of(multiply, x_RD, w, room_E), "u_BSEF"), inner)
        for w in (gate_EDF, up_EDF)
    )
    a_RF = lay(checkpoint_name(jax.nn.silu(gate_RF) * up_RF, "a_BSEF"), inner)
    # Weighed here, and not last, so that the gradient of a share needs no y again.
    share_R = jnp.zeros(R, share_TX.dtype).at[place_N].set(share_TX.reshape(-1), mode="drop")
    y_RD = lay(product_of(multiply, a_RF * share_R[:, None], down_EFD, room_E), wide)
    y_ND = y_RD.at[place_N].get(mode="fill", fill_value=0)
    return y_ND.reshape(T, X, D).sum(axis=1)


def product_of(multiply, x, kernel: Kernel, *others) -> jax.Array:
    """Return multiply(x, kernel, *others), of a kernel as it is or as it is stored."""
    multiply = (
        functools.partial(multiply_stored, multiply) if isinstance(kernel, tuple) else multiply
    )
    return multiply(x, kernel, *others)


def count_experts(kernels) -> int:
    """Return E of kernels, those of the experts that are here."""
    return jax.tree.leaves(kernels)[0].shape[0]


def lay(x: jax.Array, spec: P | None) -> jax.Array:
    """Return x in the layout `spec`; as it is for None."""
    return x if spec is None else jax.lax.with_sharding_constraint(x, spec)
