"""Texts token by token, of a model that mixes positions otherwise than by attention: each is computed anew.

Shape letters: B batch, S new tokens, T slots, D embed.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

Texts = dict[str, jax.Array]


def empty_texts(batch: int, length: int) -> Texts:
    """Return what stands for a cache: the tokens of each text, from its first one on, ids_BT."""
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

    hidden: (ids_BT) -> x_BTD, causal. mask_BT: where the slots are no padding; new tokens take those from `index` on.
    """
    B, S = input_ids_BS.shape
    new_BS = jax.lax.dynamic_slice_in_dim(mask_BT, index, S, axis=1)
    ids_BT = texts["ids"]
    place_BS = jnp.where(new_BS, positions_BS, ids_BT.shape[1])  # padding falls off the end
    rows_B1 = jnp.arange(B)[:, None]
    ids_BT = ids_BT.at[rows_B1, place_BS].set(input_ids_BS.astype(jnp.int32), mode="drop")
    x_BTD = hidden(ids_BT)
    return jnp.take_along_axis(x_BTD, positions_BS[:, :, None], axis=1), {"ids": ids_BT}
