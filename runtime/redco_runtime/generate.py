"""Text generation with a cache.

Shape letters: B batch, S prompt, T generated tokens, C cache slots, D model, V vocab.
"""

from typing import Any

import jax
import jax.numpy as jnp


def generate(
    model: Any,
    input_ids_BS: jax.Array,
    mask_BS: jax.Array,
    *,
    max_new_tokens: int,
    temperature: float,
    key: jax.Array,
) -> jax.Array:
    """The `max_new_tokens` tokens that follow each prompt: tokens_BT, int32. Call it inside jit.

    Prompts are padded on the right: `mask_BS` is true for their tokens, of which each row has at
    least one. Temperature 0.0 takes the likeliest token, any other samples with `key`; both are
    Python numbers, fixed when traced. The prompt is computed once, then each token costs one step.
    `model` has `init_cache(batch, length)`, `decode(ids, positions, mask, cache, index)` and
    `logits(x)`. Raises ValueError for max_new_tokens below 1 or a negative temperature.
    """
    if max_new_tokens < 1 or temperature < 0:
        raise ValueError(
            f"generate: max_new_tokens must be at least 1 and temperature at least 0, "
            f"not {max_new_tokens} and {temperature}."
        )
    B, S = input_ids_BS.shape
    input_ids_BS, mask_BS = _pad_left(input_ids_BS, mask_BS)
    positions_BS = jnp.maximum(jnp.cumsum(mask_BS, axis=1) - 1, 0)
    lengths_B1 = positions_BS[:, -1:] + 1
    num_steps = max_new_tokens - 1  # the last token is never fed back
    mask_BC = jnp.pad(mask_BS, ((0, 0), (0, num_steps)), constant_values=True)

    def next_token(x_BD, i):
        logits_BV = model.logits(x_BD[:, None, :])[:, 0, :]
        return _choose(logits_BV.astype(jnp.float32), temperature, key, i)

    def step(carry, i):
        tokens_B, cache = carry
        x_B1D, cache = model.decode(tokens_B[:, None], lengths_B1 + i, mask_BC, cache, S + i)
        tokens_B = next_token(x_B1D[:, -1], i + 1)
        return (tokens_B, cache), tokens_B

    cache = model.init_cache(B, S + num_steps)
    x_BSD, cache = model.decode(input_ids_BS, positions_BS, mask_BC, cache, 0)
    first_B = next_token(x_BSD[:, -1], 0)
    _, rest_TB = jax.lax.scan(step, (first_B, cache), jnp.arange(num_steps))
    return jnp.concatenate([first_B[None, :], rest_TB]).T


def _pad_left(input_ids_BS, mask_BS):
    """Moves each row's padding from its end to its start."""
    S = mask_BS.shape[1]
    shift_B1 = S - mask_BS.sum(axis=1, keepdims=True)
    source_BS = (jnp.arange(S)[None, :] - shift_B1) % S
    return tuple(jnp.take_along_axis(a, source_BS, axis=1) for a in (input_ids_BS, mask_BS))


def _choose(logits_BV, temperature, key, i):
    if temperature == 0.0:
        return logits_BV.argmax(axis=-1).astype(jnp.int32)
    step_key = jax.random.fold_in(key, i)
    return jax.random.categorical(step_key, logits_BV / temperature).astype(jnp.int32)
