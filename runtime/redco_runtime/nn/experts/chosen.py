"""Experts of tokens in a row, as classes of PyTorch call them.

Shape letters: T tokens, X experts of a token, E experts, D embed, F mlp.
"""

from contextlib import nullcontext

import jax
from jax.sharding import PartitionSpec as P

from ...layout.activations import layouts
from .experts import experts

# Where experts of a class lie, whose activations have no names: as the engine lays them out in a family.
TOKENS, INNER = P(("data", "fsdp", "expert"), None, None), P(
    ("data", "fsdp"), None, "expert", "model"
)
TABLE = {"h_BSD": TOKENS, "u_BSEF": INNER, "a_BSEF": INNER, "x_BSD": TOKENS}


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
    tokens = h_TD[:, None], shares_TE[:, None], expert_TX[:, None]  # each a row of its own
    has_mesh = not jax.sharding.get_abstract_mesh().empty
    with layouts(TABLE) if has_mesh else nullcontext():
        return experts(*tokens, gate_EDF, up_EDF, down_EFD)[:, 0]
