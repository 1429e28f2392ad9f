"""Texts token by token, of a model that mixes positions otherwise than by attention: each is computed anew.

Shape letters: B batch, S new tokens, T slots, D embed.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

Texts = dict[str, jax.Array]


def empty_texts(batch: int, length: int) -> Texts:
    """Return what stands for a cache: the tokens by their slots, ids_BT."""
    return {"ids": jnp.zeros((batch, length), jnp.int32)}


def decode_anew(
    hidden: Callable[[jax.Array], jax.Array],
    input_ids_BS: jax.Array,
    positions_BS: jax.Array,
    mask_BT: jax.Array,
    texts: Texts,
    index: jax.Array | int,
) -> tuple[jax.Array, Texts]:
    """Return (x_BSD, texts) for S new tokens, as `decode` of a model with a cache, at the cost of whole texts.

    hidden: (ids_BT) -> x_BTD, causal. New tokens take the slots from `index` on; padding is on the left.
    """
    ids_BT = input_ids_BS.astype(jnp.int32)
    ids_BT = jax.lax.dynamic_update_slice_in_dim(texts["ids"], ids_BT, index, axis=1)
    # From its first token on, to which padding moves behind.
    first_B1 = index + input_ids_BS.shape[1] - 1 - positions_BS[:, -1:]
    places_BT = (jnp.arange(ids_BT.shape[1])[None, :] + first_B1) % ids_BT.shape[1]
    x_BTD = hidden(jnp.take_along_axis(ids_BT, places_BT, axis=1))
    return jnp.take_along_axis(x_BTD, positions_BS[:, :, None], axis=1), {"ids": ids_BT}
