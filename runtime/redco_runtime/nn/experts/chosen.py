"""Experts of tokens in a row, as classes of PyTorch call them.

Shape letters: T tokens, X experts of a token, E experts, D embed, F mlp.
"""

import jax
from jax.sharding import PartitionSpec as P

from ...layout.activations import layouts
from .experts import FSDP, experts

ROWS = ("data", FSDP)
# Where experts of a class lie: no table of activations names them.
TABLE = {
    "h_BSD": P(ROWS, None, None),
    "x_BSD": P(ROWS, None, None),
    "u_BSEF": P(ROWS, None, "expert", "model"),
    "a_BSEF": P(ROWS, None, "expert", "model"),
}


def chosen_experts(
    h_TD: jax.Array,
    expert_TX: jax.Array,
    share_TX: jax.Array,
    gate_EDF: jax.Array,
    up_EDF: jax.Array,
    down_EFD: jax.Array,
) -> jax.Array:
    """Return x_TD, for each token the sum of what the experts expert_TX make of it, each times its share."""
    chosen_TXE = jax.nn.one_hot(expert_TX, gate_EDF.shape[0], dtype=share_TX.dtype)
    shares_TE = (chosen_TXE * share_TX[..., None]).sum(axis=1).astype(h_TD.dtype)
    kernels = gate_EDF, up_EDF, down_EFD
    if jax.sharding.get_abstract_mesh().empty:
        return experts(h_TD[:, None], shares_TE[:, None], expert_TX[:, None], *kernels)[:, 0]
    with layouts(TABLE):
        return experts(h_TD[:, None], shares_TE[:, None], expert_TX[:, None], *kernels)[:, 0]
