"""Targets of an encoder-decoder token by token, of a model without a cache: each is computed anew.

Shape letters: B batch, S source, T new tokens, C slots, D embed.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

Targets = dict[str, jax.Array]


def empty_targets(x_BSD: jax.Array, length: int) -> Targets:
    """Return what stands for a cache: the tokens of each target, "ids" (1, B, C), and their sources' hidden states."""
    return {"ids": jnp.zeros((1, len(x_BSD), length), jnp.int32), "source": x_BSD}


def decode_targets(
    hidden: Callable[..., jax.Array],
    decoder_ids_BT: jax.Array,
    mask_BS: jax.Array,
    targets: Targets,
    index: jax.Array | int,
) -> tuple[jax.Array, Targets]:
    """Return (y_BTD, targets) for T new tokens, as `decode` of a model with a cache, at the cost of whole targets.

    hidden: (ids_BC, x_BSD, mask_BS) -> y_BCD, causal. index: the slot of the first new token.
    """
    new = decoder_ids_BT[None].astype(jnp.int32)
    ids_1BC = jax.lax.dynamic_update_slice(targets["ids"], new, (0, 0, index))
    y_BCD = hidden(ids_1BC[0], targets["source"], mask_BS)
    y_BTD = jax.lax.dynamic_slice_in_dim(y_BCD, index, decoder_ids_BT.shape[1], axis=1)
    return y_BTD, targets | {"ids": ids_1BC}
