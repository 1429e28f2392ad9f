"""Beam search of an encoder-decoder, on the devices, with a cache.

Shape letters: B batch, S source, K beams, M candidates, R = B K rows, T new tokens, D model, V vocab,
E ids that end a target.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .decoding import for_tokens

NEVER = -1e9  # the score of a beam that is none, as in Hugging Face's search


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Beams:
    """The best K of each row, the best first: tokens (B, K, 1 + T) and scores (B, K), float32."""

    tokens: jax.Array
    scores: jax.Array


def beam_search(
    model: Any,
    input_ids_BS: jax.Array,
    mask_BS: jax.Array,
    *,
    num_beams: int,
    max_new_tokens: int,
    start_id: int,
    pad_id: int,
    eos_id: int,
    forced_bos_id: int = -1,
    forced_eos_id: int = -1,
    length_penalty: float = 1.0,
    min_new_tokens: int = 0,
    stop_ids: Sequence[int] = (),
    early_stopping: bool | str = False,
) -> jax.Array:
    """Return the likeliest target that a search finds for each source: tokens_BT, int32, pad_id behind eos_id.

    What Hugging Face's `generate` finds with the same settings. Call it inside jit. `mask_BS` is
    true for tokens of the source. A score is the sum of the log probabilities, divided by
    length ** length_penalty. early_stopping: True ends with K targets; False when the best running
    beam, at its length, is no better than they; "never" when it could not be at any length. One
    beam and early_stopping=True is greedy search. forced_bos_id, forced_eos_id: the first token,
    and the last where there is no other end; -1 for none. stop_ids: further ones that end a target, which has
    min_new_tokens before one. Raises ValueError for no beam or token.
    """
    if num_beams < 1 or max_new_tokens < 1:
        raise ValueError(
            f"beam_search: num_beams and max_new_tokens must be at least 1, "
            f"not {num_beams} and {max_new_tokens}."
        )
    reader = for_tokens(model)
    B, K, T = input_ids_BS.shape[0], num_beams, max_new_tokens
    penalty_T = jnp.asarray(np.arange(1, T + 1, dtype=np.float32) ** length_penalty, jnp.float32)
    mask_RS = jnp.repeat(mask_BS, K, axis=0)
    ends_E = jnp.array([eos_id, *stop_ids])

    def log_probabilities(running, cache, i):
        last_R1 = jax.lax.dynamic_index_in_dim(running.tokens, i, axis=2).reshape(B * K, 1)
        x_R1D, cache = reader.decode(last_R1, mask_RS, cache, i)
        log_BKV = jax.nn.log_softmax(reader.logits(x_R1D).astype(jnp.float32)).reshape(B, K, -1)
        short = (i < min_new_tokens) & jnp.isin(jnp.arange(log_BKV.shape[-1]), ends_E)
        log_BKV = jnp.where(short[None, None, :], -jnp.inf, log_BKV)
        log_BKV = _force(log_BKV, forced_bos_id, i == 0)
        return _force(log_BKV, forced_eos_id, i == T - 1), cache

    def step(state):
        i, running, finished, open_B, cache = state
        log_BKV, cache = log_probabilities(running, cache, i)
        scores_BKV = running.scores[:, :, None] + log_BKV
        # Twice as many as beams: at most half of them end, so that K can go on.
        scores_BM, at_BM = jax.lax.top_k(scores_BKV.reshape(B, -1), 2 * K)
        from_BM, token_BM = jnp.divmod(at_BM, log_BKV.shape[-1])
        tokens = _take(running.tokens, from_BM).at[:, :, i + 1].set(token_BM)
        ends_BM = jnp.isin(token_BM, ends_E) | (i == T - 1)

        next_BK, kept_BK = jax.lax.top_k(scores_BM + jnp.where(ends_BM, NEVER, 0.0), K)
        cache = _follow(cache, _take(from_BM, kept_BK))
        running = Beams(_take(tokens, kept_BK), next_BK)

        added_BM = ends_BM & (jnp.arange(2 * K) < K)[None, :] & open_B[:, None]
        scores_BM = jnp.where(added_BM, scores_BM / penalty_T[i], NEVER)
        finished = _best(finished, Beams(tokens, scores_BM), K)
        worst_B = finished.scores[:, -1]
        if early_stopping is True:
            open_B &= worst_B == NEVER
        else:
            at = T - 1 if early_stopping == "never" and length_penalty > 0.0 else i
            open_B &= running.scores[:, 0] / penalty_T[at] > worst_B
        return i + 1, running, finished, open_B, cache

    tokens = jnp.full((B, K, 1 + T), pad_id, jnp.int32).at[:, :, 0].set(start_id)
    nothing = Beams(tokens, jnp.full((B, K), NEVER))
    # All beams begin alike: only the first counts, or each token would be found K times.
    running = Beams(tokens, nothing.scores.at[:, 0].set(0.0))
    x_BSD = model.encode(input_ids_BS, mask_BS)
    cache = model.init_cache(jnp.repeat(x_BSD, K, axis=0), T)
    state = (jnp.int32(0), running, nothing, jnp.ones(B, bool), cache)
    state = jax.lax.while_loop(lambda s: (s[0] < T) & s[3].any(), step, state)
    return state[2].tokens[:, 0, 1:]


def _force(log_BKV, token, now):
    """Return the log probabilities of only `token`, where `now`; a negative one forces nothing."""
    only_V = jnp.where(jnp.arange(log_BKV.shape[-1]) == token, 0.0, -jnp.inf)
    return jnp.where(now, only_V[None, None, :], log_BKV) if token >= 0 else log_BKV


def _take(x_BK, at_BM):
    """Take of each row the entries `at`."""
    return jax.vmap(lambda x_K, at_M: x_K[at_M])(x_BK, at_BM)


def _best(one, other, K):
    """Return the best K of two sets of beams."""
    scores = jnp.concatenate([one.scores, other.scores], axis=1)
    scores_BK, at_BK = jax.lax.top_k(scores, K)
    return Beams(_take(jnp.concatenate([one.tokens, other.tokens], axis=1), at_BK), scores_BK)


def _follow(cache, parent_BK):
    """Return the cache with each beam's keys and values those of its parent; the source's stay."""

    def follow(x_LRC):
        x_LBKC = x_LRC.reshape(x_LRC.shape[0], *parent_BK.shape, *x_LRC.shape[2:])
        take = jax.vmap(lambda x_LKC, parent_K: x_LKC[:, parent_K], in_axes=(1, 0), out_axes=1)
        return take(x_LBKC, parent_BK).reshape(x_LRC.shape)

    return cache | {x: follow(cache[x]) for x in ("k", "v", "ids") if x in cache}
