"""Text generation with a cache.

Shape letters: B batch, S prompt, T generated tokens, C cache slots, D model, V vocab.
"""

from typing import Any

import jax
import jax.numpy as jnp

from redco_runtime.decoding import for_tokens


def generate(
    model: Any,
    input_ids_BS: jax.Array,
    mask_BS: jax.Array,
    *,
    max_new_tokens: int,
    temperature: float,
    key: jax.Array,
) -> jax.Array:
    """Return the `max_new_tokens` tokens that follow each prompt: tokens_BT, int32. Call it in jit.

    Prompts are padded on the right: `mask_BS` is true for their tokens, of which each row has at
    least one. Temperature 0.0 takes the likeliest token, any other samples with `key`; both are
    Python numbers, fixed when traced. `model` has `init_cache(batch, length)`, `logits(x)` and
    `decode(ids, positions, mask, cache, index)`, and may have what `for_tokens` asks for. Raises ValueError for numbers out of range.
    """
    if max_new_tokens < 1 or temperature < 0:
        raise ValueError(
            f"generate: max_new_tokens must be at least 1 and temperature at least 0, "
            f"not {max_new_tokens} and {temperature}."
        )
    reader = for_tokens(model)
    B, S = input_ids_BS.shape
    # From the end of each row, its padding moves to the start.
    source_BS = (jnp.arange(S)[None, :] + mask_BS.sum(axis=1, keepdims=True)) % S
    input_ids_BS = jnp.take_along_axis(input_ids_BS, source_BS, axis=1)
    mask_BS = jnp.take_along_axis(mask_BS, source_BS, axis=1)
    positions_BS = jnp.maximum(jnp.cumsum(mask_BS, axis=1) - 1, 0)
    lengths_B1 = positions_BS[:, -1:] + 1
    num_steps = max_new_tokens - 1  # the last token is never fed back
    mask_BC = jnp.pad(mask_BS, ((0, 0), (0, num_steps)), constant_values=True)

    def next_token(x_BD, i):
        logits_BV = reader.logits(x_BD[:, None, :])[:, 0, :].astype(jnp.float32)
        if temperature == 0.0:
            return logits_BV.argmax(axis=-1).astype(jnp.int32)
        step_key = jax.random.fold_in(key, i)
        return jax.random.categorical(step_key, logits_BV / temperature).astype(jnp.int32)

    def step(carry, i):
        tokens_B, cache = carry
        x_B1D, cache = reader.decode(tokens_B[:, None], lengths_B1 + i, mask_BC, cache, S + i)
        tokens_B = next_token(x_B1D[:, -1], i + 1)
        return (tokens_B, cache), tokens_B

    cache = model.init_cache(B, S + num_steps)
    x_BSD, cache = model.decode(input_ids_BS, positions_BS, mask_BC, cache, 0)
    first_B = next_token(x_BSD[:, -1], 0)
    _, rest_TB = jax.lax.scan(step, (first_B, cache), jnp.arange(num_steps))
    return jnp.concatenate([first_B[None, :], rest_TB]).T
