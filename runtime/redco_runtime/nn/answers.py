"""Several answers to each question, with a cache: an answer that ends makes room for one that waits.

What a token costs goes by the rows that are computed, and by the slots of their cache that are read. Where answers have
ended, others begin in their rows; where none wait, the rows become half as many; and the cache is read as far as the
longest answer is. Shapes are static: each number of rows and of slots is a program, and rows move between them.

Shape letters: B questions, S tokens of one, T of an answer, N answers, n of a part, R rows that are drawn at once,
C cache slots, M parts, V vocab, E ids that end an answer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ..layout.mesh import free_axes
from .cache_rows import CacheRows, first_rows, in_parts, put_rows, take_rows
from .decoding import for_tokens

# Slots of the rows that a device draws at once: of an 8B, those that an H100 reads for a token in about the time that it
# reads the weights in (17 and 16 GB). More take more memory, and are hardly faster each.
SLOTS = 64 * 2048
# Slots by which what is read of the cache grows, up to so many lengths, and how often rows are halved, down to FEW, below
# which they are no faster: each is a program that takes time to compile. Answers of a chunk at most have one.
CHUNK, LENGTHS, SIZES, FEW = 128, 4, 4, 8


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows:
    """Rows side by side: which answer of its part each is, n for none; its first slot; its tokens, and how many."""

    answer_R: jax.Array
    first_R: jax.Array
    drawn_R: jax.Array
    tokens_RT: jax.Array

    def last_R1(self) -> jax.Array:
        """Return the last token of each."""
        return jnp.take_along_axis(self.tokens_RT, self.drawn_R[:, None] - 1, axis=1)


def draw_answers(
    model: Any,
    input_ids_BS: jax.Array,
    mask_BS: jax.Array,
    *,
    copies: int,
    max_new_tokens: int,
    temperature: float,
    key: jax.Array,
    stop_ids: Sequence[int] = (),
) -> jax.Array:
    """Return tokens_NT, int32: `copies` answers to each question, side by side. Call it in jit.

    Questions are padded on the right: `mask_BS` is true for their tokens, of which each has at least one; each is read
    once. Temperature 0.0 takes the likeliest token, any other samples, with `key` and the number of the answer alone:
    not by what else is drawn, nor on which devices. An answer ends with the first of `stop_ids`, which fills it up.
    `model` has `init_cache(batch, length)`, `logits(x)` and `decode(ids, positions, mask, cache, index)`, and may have
    what `for_tokens` asks for. Raises ValueError for numbers out of range.
    """
    if max_new_tokens < 1 or temperature < 0 or copies < 1:
        raise ValueError(
            "draw_answers: copies and max_new_tokens must be at least 1, and temperature at least 0, "
            f"not {copies}, {max_new_tokens} and {temperature}."
        )
    reader, (B, S), T = for_tokens(model), input_ids_BS.shape, max_new_tokens
    # From the end of each row, its padding moves to the start.
    lengths_B = mask_BS.sum(axis=1)
    source_BS = (jnp.arange(S)[None, :] + lengths_B[:, None]) % S
    input_ids_BS = jnp.take_along_axis(input_ids_BS, source_BS, axis=1)
    mask_BS = jnp.take_along_axis(mask_BS, source_BS, axis=1)
    positions_BS = jnp.maximum(jnp.cumsum(mask_BS, axis=1) - 1, 0)
    N, C = B * copies, S + T - 1  # the last token is never fed back
    M = math.gcd(B, math.prod(free_axes().values()))  # no device has rows of two parts
    n, most = N // M, min(N // M, max(FEW, SLOTS // C))
    ends_E = jnp.array(tuple(stop_ids), jnp.int32)

    def draw(logits_RV, number_R, i_R):
        if temperature == 0.0:
            return logits_RV.argmax(axis=-1).astype(jnp.int32)
        keys_R = jax.vmap(lambda *by: jax.random.fold_in(jax.random.fold_in(key, by[0]), by[1]))
        draw_each = jax.vmap(jax.random.categorical)
        return draw_each(keys_R(number_R, i_R), logits_RV / temperature).astype(jnp.int32)

    def logits(x_RSD):
        return reader.logits(x_RSD[:, -1:])[:, 0].astype(jnp.float32)

    x_BSD, read = model.decode(input_ids_BS, positions_BS, mask_BS, model.init_cache(B, S), 0)
    logits_NV = jnp.repeat(logits(x_BSD), copies, axis=0)
    first_N = draw(logits_NV, jnp.arange(N), jnp.zeros(N, jnp.int32))
    tokens_NT = jnp.repeat(first_N[:, None], T, axis=1)
    if T == 1:
        return tokens_NT

    def goes_on(rows):
        ended_R = (rows.last_R1() == ends_E[None, :]).any(axis=1)
        return (rows.answer_R < n) & (rows.drawn_R < T) & ~ended_R

    caches = CacheRows(model.init_cache, M)
    chunk = CHUNK * -(-(T - 1) // (CHUNK * LENGTHS))
    lengths = [min(end, C) for end in range(S + chunk, C + chunk, chunk)]
    sizes = [most >> i for i in range(SIZES if T > CHUNK else 1) if not i or most >> i >= FEW]

    def refill(state):
        """Put those that go on first, and behind them those that wait; the longest begins with the first slot."""
        tokens_NT, next_M1, index, rows, cache = state
        on_MR = in_parts(goes_on(rows), M)
        at_MR, kept_M1 = jnp.argsort(~on_MR, axis=1), on_MR.sum(axis=1, keepdims=True)
        behind_MR = jnp.arange(most)[None, :] - kept_M1
        new_MR, wait_MR = behind_MR >= 0, jnp.minimum(next_M1 + behind_MR, n)
        new_R, rows = new_MR.reshape(-1), jax.tree.map(lambda x: take_rows(x, at_MR), rows)
        used_R = jnp.where(new_R, 0, index - rows.first_R)
        end = jnp.maximum(used_R.max(), S)
        of_MR = wait_MR // copies
        used_R = jnp.where(new_R, take_rows(lengths_B, of_MR), used_R)
        rows = Rows(
            jnp.where(new_R, wait_MR.reshape(-1), rows.answer_R),
            end - used_R,
            jnp.where(new_R, 1, rows.drawn_R),
            jnp.where(new_R[:, None], take_rows(tokens_NT, wait_MR), rows.tokens_RT),
        )
        cache = caches.refill(cache, at_MR, index - end, read, of_MR, end - S, new_R)
        return tokens_NT, next_M1 + most - kept_M1, end, rows, cache

    def go_on(length, size, state):
        """Draw for the first rows of each part, until `length` slots are full or half of the rows have ended."""
        tokens_NT, next_M1, index, all_rows, whole = state
        rows = jax.tree.map(lambda x: first_rows(x, size, M), all_rows)
        number_R = (in_parts(rows.answer_R, M) + n * jnp.arange(M)[:, None]).reshape(-1)
        mask_RC = jnp.arange(length)[None, :] >= rows.first_R[:, None]
        begun = goes_on(rows).sum()

        def step(carry):
            index, rows, cache = carry
            places_R1 = index - rows.first_R[:, None]
            x_R1D, cache = reader.decode(rows.last_R1(), places_R1, mask_RC, cache, index)
            next_R, on_R = draw(logits(x_R1D), number_R, rows.drawn_R), goes_on(rows)
            # What is behind it too, where no further step comes.
            fill_RT = on_R[:, None] & (jnp.arange(T)[None, :] >= rows.drawn_R[:, None])
            tokens_RT = jnp.where(fill_RT, next_R[:, None], rows.tokens_RT)
            rows = replace(rows, tokens_RT=tokens_RT, drawn_R=rows.drawn_R + on_R)
            return index + 1, rows, cache

        def more(carry):
            index, rows, _ = carry
            return (index < length) & (2 * goes_on(rows).sum() > begun)

        carry = index, rows, caches.first(whole, size, length)
        index, rows, cache = jax.lax.while_loop(more, step, carry)
        put = jax.vmap(lambda x_nT, at_R, x_RT: x_nT.at[at_R].set(x_RT, mode="drop"))
        tokens_MnT = put(*(in_parts(x, M) for x in (tokens_NT, rows.answer_R, rows.tokens_RT)))
        all_rows = jax.tree.map(lambda x, own: put_rows(x, own, M), all_rows, rows)
        return tokens_MnT.reshape(N, T), next_M1, index, all_rows, caches.put(whole, cache)

    programs = [partial(go_on, length, size) for length in lengths for size in sizes]

    def turn(state):
        _, _, index, rows, _ = state = refill(state)
        count = (in_parts(rows.answer_R, M) < n).sum(axis=1).max()
        size = (jnp.array(sizes) >= count).sum() - 1
        return jax.lax.switch((index - S) // chunk * len(sizes) + size, programs, state)

    def waits(state):
        _, next_M1, _, rows, _ = state
        return (next_M1 < n).any() | goes_on(rows).any()

    none_R = jnp.full(M * most, n, jnp.int32)
    rows = Rows(none_R, 0 * none_R, 0 * none_R + 1, jnp.zeros((M * most, T), jnp.int32))
    next_M1, cache = jnp.zeros((M, 1), jnp.int32), model.init_cache(M * most, C)
    return jax.lax.while_loop(waits, turn, (tokens_NT, next_M1, jnp.int32(S), rows, cache))[0]
