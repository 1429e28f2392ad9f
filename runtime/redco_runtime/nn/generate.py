"""Text generation with a cache.

Shape letters: B batch, S prompt, T generated tokens, C cache slots, D model, V vocab, E ids that end a text.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .decoding import for_tokens


def generate(
    model: Any,
    input_ids_BS: jax.Array,
    mask_BS: jax.Array,
    *,
    max_new_tokens: int,
    temperature: float,
    key: jax.Array,
    top_k: int = 0,
    top_p: float = 1.0,
    stop_ids: Sequence[int] = (),
) -> jax.Array:
    """Return the `max_new_tokens` tokens that follow each prompt: tokens_BT, int32. Call it in jit.

    Prompts are padded on the right: `mask_BS` is true for their tokens, of which each row has at
    least one. Temperature 0.0 takes the likeliest token, any other samples with `key`, as
    transformers does: of the `top_k` likeliest (0: of all), and of the fewest whose probability
    together is `top_p`. A row ends with the first of `stop_ids`, which fills it up; once all have, no
    more is computed. These are Python numbers, fixed when traced. `model` has `init_cache(batch,
    length)`, `logits(x)` and `decode(ids, positions, mask, cache, index)`, and may have what
    `for_tokens` asks for. Raises ValueError for numbers out of range.
    """
    if max_new_tokens < 1 or temperature < 0 or top_k < 0 or not 0 < top_p <= 1:
        raise ValueError(
            f"generate: max_new_tokens must be at least 1, temperature and top_k at least 0, and top_p "
            f"above 0 and at most 1, not {max_new_tokens}, {temperature}, {top_k} and {top_p}."
        )
    reader = for_tokens(model)
    B, S = input_ids_BS.shape
    input_ids_BS, mask_BS = _pad_left(input_ids_BS, mask_BS)
    positions_BS = jnp.maximum(jnp.cumsum(mask_BS, axis=1) - 1, 0)
    lengths_B1 = positions_BS[:, -1:] + 1
    num_steps = max_new_tokens - 1  # the last token is never fed back
    C = S + num_steps
    mask_BC = jnp.pad(mask_BS, ((0, 0), (0, num_steps)), constant_values=True)
    ends_E = jnp.array(tuple(stop_ids), jnp.int32)

    def next_token(x_BD, i):
        logits_BV = reader.logits(x_BD[:, None, :])[:, 0, :].astype(jnp.float32)
        if temperature == 0.0:
            return logits_BV.argmax(axis=-1).astype(jnp.int32)
        logits_BV = likeliest(logits_BV / temperature, top_k, top_p)
        return jax.random.categorical(jax.random.fold_in(key, i), logits_BV).astype(jnp.int32)

    def ended(tokens_B):
        return (tokens_B[:, None] == ends_E[None, :]).any(axis=1)

    def step(state):
        i, tokens_BT, cache = state
        last_B1 = jax.lax.dynamic_slice_in_dim(tokens_BT, i, 1, axis=1)
        x_B1D, cache = reader.decode(last_B1, lengths_B1 + i, mask_BC, cache, S + i)
        last_B = last_B1[:, 0]
        next_B = jnp.where(ended(last_B), last_B, next_token(x_B1D[:, -1], i + 1))
        # What is behind it too, where no further step comes.
        fill_BT = jnp.where(jnp.arange(max_new_tokens)[None, :] > i, next_B[:, None], tokens_BT)
        return i + 1, fill_BT, cache

    def goes_on(state):
        i, tokens_BT, _ = state
        last_B1 = jax.lax.dynamic_slice_in_dim(tokens_BT, i, 1, axis=1)
        return (i < num_steps) & ~ended(last_B1[:, 0]).all()

    x_BSD, cache = model.decode(input_ids_BS, positions_BS, mask_BC, model.init_cache(B, C), 0)
    first_B = next_token(x_BSD[:, -1], 0)
    tokens_BT = jnp.repeat(first_B[:, None], max_new_tokens, axis=1)
    return jax.lax.while_loop(goes_on, step, (jnp.int32(0), tokens_BT, cache))[1]


def _pad_left(input_ids_BS, mask_BS):
    """Return prompts and their mask, the padding of each row moved from its end to its start."""
    S = input_ids_BS.shape[1]
    source_BS = (jnp.arange(S)[None, :] + mask_BS.sum(axis=1, keepdims=True)) % S
    return tuple(jnp.take_along_axis(x, source_BS, axis=1) for x in (input_ids_BS, mask_BS))


def likeliest(logits_BV: jax.Array, top_k: int, top_p: float) -> jax.Array:
    """Return the logits of the likeliest tokens, as `generate` says, and -inf for the others."""
    if 0 < top_k < logits_BV.shape[-1]:
        least_B1 = jax.lax.top_k(logits_BV, top_k)[0][:, -1:]
        logits_BV = jnp.where(logits_BV < least_B1, -jnp.inf, logits_BV)
    if top_p < 1.0:
        down_BV = jnp.sort(logits_BV, axis=-1, descending=True)
        shares_BV = jax.nn.softmax(down_BV, axis=-1)
        before_BV = jnp.cumsum(shares_BV, axis=-1) - shares_BV  # of those that are likelier
        least_B1 = jnp.where(before_BV < top_p, down_BV, jnp.inf).min(axis=-1, keepdims=True)
        logits_BV = jnp.where(logits_BV < least_B1, -jnp.inf, logits_BV)
    return logits_BV
