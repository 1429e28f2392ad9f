"""Several answers to each question, with a cache: an answer that ends makes room for one that waits.

What a token costs goes by the rows that are computed, and by the slots of their cache that are read. Where answers have
ended, others begin in their rows; where none wait, the rows become half as many; and the cache is read as far as the
longest answer is. Shapes are static: each number of rows and of slots is a program, and rows move between them.

Shape letters: B questions, S tokens of one, T of an answer, N answers, n of a part, R rows that are drawn at once,
C cache slots, M parts, V vocab, E ids that end an answer.
"""

import math
from collections.abc import Callable, Sequence
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
    (B, S), N = input_ids_BS.shape, input_ids_BS.shape[0] * copies
    # From the end of each row, its padding moves to the start.
    lengths_B = mask_BS.sum(axis=1)
    source_BS = (jnp.arange(S)[None, :] + lengths_B[:, None]) % S
    input_ids_BS = jnp.take_along_axis(input_ids_BS, source_BS, axis=1)
    mask_BS = jnp.take_along_axis(mask_BS, source_BS, axis=1)
    positions_BS = jnp.maximum(jnp.cumsum(mask_BS, axis=1) - 1, 0)
    draw, reader = partial(_draw, temperature=temperature, key=key), for_tokens(model)
    x_BSD, read = model.decode(input_ids_BS, positions_BS, mask_BS, model.init_cache(B, S), 0)
    logits_NV = jnp.repeat(_last_logits(reader, x_BSD), copies, axis=0)
    first_N = draw(logits_NV, jnp.arange(N), jnp.zeros(N, jnp.int32))
    tokens_NT = jnp.repeat(first_N[:, None], max_new_tokens, axis=1)
    if max_new_tokens == 1:
        return tokens_NT
    M = math.gcd(B, math.prod(free_axes().values()))  # no device has rows of two parts
    ends_E, caches = jnp.array(tuple(stop_ids), jnp.int32), CacheRows(model.init_cache, M)
    turns = Turns(reader, draw, caches, ends_E, read, lengths_B, copies, N // M, S, max_new_tokens)
    state = turns.begin(tokens_NT, model.init_cache, M)
    return jax.lax.while_loop(turns.wait, turns.take, state).tokens_NT


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """Between two turns. next_M1: the answer of each part that begins next; index: the first free slot of all rows."""

    tokens_NT: jax.Array
    next_M1: jax.Array
    index: jax.Array
    rows: Rows
    cache: Any


@dataclass(frozen=True)
class Turns:
    """In a turn, answers that wait begin in rows that are free, and rows are drawn until it is time for the next.

    reader: the model; draw: `_draw` of one key; read: the cache of the questions; n: answers of a part.
    """

    reader: Any
    draw: Callable[..., jax.Array]
    caches: CacheRows
    ends_E: jax.Array
    read: Any
    lengths_B: jax.Array
    copies: int
    n: int
    S: int
    T: int

    @property
    def C(self) -> int:
        """The slots of the cache: the last token is never fed back."""
        return self.S + self.T - 1

    @property
    def most(self) -> int:
        """The rows of a part that are drawn at once."""
        return min(self.n, max(FEW, SLOTS // self.C))

    def begin(self, tokens_NT: jax.Array, init_cache: Callable[[int, int], Any], M: int) -> State:
        """Return the state in which no row has an answer."""
        none_R, R = jnp.full(M * self.most, self.n, jnp.int32), M * self.most
        rows = Rows(none_R, 0 * none_R, 0 * none_R + 1, jnp.zeros((R, self.T), jnp.int32))
        next_M1 = jnp.zeros((M, 1), jnp.int32)
        return State(tokens_NT, next_M1, jnp.int32(self.S), rows, init_cache(R, self.C))

    def wait(self, state: State) -> jax.Array:
        """Return whether an answer waits to begin or to go on."""
        return (state.next_M1 < self.n).any() | self._goes_on(state.rows).any()

    def take(self, state: State) -> State:
        """Take a turn, by the program of the fewest rows and slots that it needs."""
        chunk = CHUNK * -(-(self.T - 1) // (CHUNK * LENGTHS))
        lengths = [min(end, self.C) for end in range(self.S + chunk, self.C + chunk, chunk)]
        halvings = range(SIZES if self.T > CHUNK else 1)
        sizes = [self.most >> i for i in halvings if not i or self.most >> i >= FEW]
        programs = [partial(self._go_on, length, size) for length in lengths for size in sizes]
        state = self._refill(state)
        count = (in_parts(state.rows.answer_R, len(state.next_M1)) < self.n).sum(axis=1).max()
        size = (jnp.array(sizes) >= count).sum() - 1
        at = (state.index - self.S) // chunk * len(sizes) + size
        return jax.lax.switch(at, programs, state)

    def _refill(self, state: State) -> State:
        """Put those that go on first, and behind them those that wait; the longest begins with the first slot."""
        M, rows = len(state.next_M1), state.rows
        on_MR = in_parts(self._goes_on(rows), M)
        at_MR, kept_M1 = jnp.argsort(~on_MR, axis=1), on_MR.sum(axis=1, keepdims=True)
        behind_MR = jnp.arange(self.most)[None, :] - kept_M1
        new_MR, wait_MR = behind_MR >= 0, jnp.minimum(state.next_M1 + behind_MR, self.n)
        new_R, rows = new_MR.reshape(-1), jax.tree.map(lambda x: take_rows(x, at_MR), rows)
        used_R = jnp.where(new_R, 0, state.index - rows.first_R)
        end = jnp.maximum(used_R.max(), self.S)
        of_MR = wait_MR // self.copies
        used_R = jnp.where(new_R, take_rows(self.lengths_B, of_MR), used_R)
        rows = Rows(
            jnp.where(new_R, wait_MR.reshape(-1), rows.answer_R),
            end - used_R,
            jnp.where(new_R, 1, rows.drawn_R),
            jnp.where(new_R[:, None], take_rows(state.tokens_NT, wait_MR), rows.tokens_RT),
        )
        back, ahead = state.index - end, end - self.S
        cache = self.caches.refill(state.cache, at_MR, back, self.read, of_MR, ahead, new_R)
        next_M1 = state.next_M1 + self.most - kept_M1
        return State(state.tokens_NT, next_M1, end, rows, cache)

    def _go_on(self, length: int, size: int, state: State) -> State:
        """Draw for the first rows of each part, until `length` slots are full or half of the rows have ended."""
        M = len(state.next_M1)
        rows = jax.tree.map(lambda x: first_rows(x, size, M), state.rows)
        number_R = (in_parts(rows.answer_R, M) + self.n * jnp.arange(M)[:, None]).reshape(-1)
        mask_RC = jnp.arange(length)[None, :] >= rows.first_R[:, None]
        begun = self._goes_on(rows).sum()

        def step(carry):
            index, rows, cache = carry
            places_R1 = index - rows.first_R[:, None]
            x_R1D, cache = self.reader.decode(rows.last_R1(), places_R1, mask_RC, cache, index)
            next_R = self.draw(_last_logits(self.reader, x_R1D), number_R, rows.drawn_R)
            on_R = self._goes_on(rows)
            # What is behind it too, where no further step comes.
            fill_RT = on_R[:, None] & (jnp.arange(self.T)[None, :] >= rows.drawn_R[:, None])
            tokens_RT = jnp.where(fill_RT, next_R[:, None], rows.tokens_RT)
            rows = replace(rows, tokens_RT=tokens_RT, drawn_R=rows.drawn_R + on_R)
            return index + 1, rows, cache

        def more(carry):
            index, rows, _ = carry
            return (index < length) & (2 * self._goes_on(rows).sum() > begun)

        carry = state.index, rows, self.caches.first(state.cache, size, length)
        index, rows, cache = jax.lax.while_loop(more, step, carry)
        put = jax.vmap(lambda x_nT, at_R, x_RT: x_nT.at[at_R].set(x_RT, mode="drop"))
        parts = (in_parts(x, M) for x in (state.tokens_NT, rows.answer_R, rows.tokens_RT))
        tokens_NT = put(*parts).reshape(state.tokens_NT.shape)
        rows = jax.tree.map(lambda x, own: put_rows(x, own, M), state.rows, rows)
        return State(tokens_NT, state.next_M1, index, rows, self.caches.put(state.cache, cache))

    def _goes_on(self, rows: Rows) -> jax.Array:
        ended_R = (rows.last_R1() == self.ends_E[None, :]).any(axis=1)
        return (rows.answer_R < self.n) & (rows.drawn_R < self.T) & ~ended_R


def _last_logits(reader: Any, x_RSD: jax.Array) -> jax.Array:
    return reader.logits(x_RSD[:, -1:])[:, 0].astype(jnp.float32)


def _draw(logits_RV, number_R, i_R, *, temperature: float, key: jax.Array) -> jax.Array:
    """Draw a token for each row by the numbers of its answer and of the token."""
    if temperature == 0.0:
        return logits_RV.argmax(axis=-1).astype(jnp.int32)
    keys_R = jax.vmap(lambda *by: jax.random.fold_in(jax.random.fold_in(key, by[0]), by[1]))
    draw_each = jax.vmap(jax.random.categorical)
    return draw_each(keys_R(number_R, i_R), logits_RV / temperature).astype(jnp.int32)
