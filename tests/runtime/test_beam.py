"""Beam search, with a model whose next token depends on all before: against all there are."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from redco_runtime.nn.beam import beam_search

V, T, EOS, START, PAD = 4, 5, 3, 2, 0
TABLE = np.asarray(jax.nn.log_softmax(2 * jax.random.normal(jax.random.key(0), (23, V))))


@pytest.fixture(autouse=True)
def strict_ranks():
    with jax.numpy_rank_promotion("raise"):
        yield


class HistoryModel:
    """Logits: the row of TABLE that the source's first token and all of the target's choose."""

    def encode(self, input_ids_BS, mask_BS):
        return jnp.where(mask_BS, input_ids_BS, 0)[:, :, None]

    def init_cache(self, x_BSD, length):
        empty = jnp.zeros((1, x_BSD.shape[0], length, 1, 1), jnp.int32)
        return {"k": empty, "v": empty, "source": x_BSD[:, 0]}

    def decode(self, ids_R1, mask_RS, cache, index):
        at = (0, 0, index, 0, 0)
        k = jax.lax.dynamic_update_slice(cache["k"], ids_R1[None, :, :, None, None], at)
        seen_C = jnp.arange(k.shape[2]) * (jnp.arange(k.shape[2]) <= index)
        row_R1 = cache["source"] + (k[0, :, :, 0, 0] * (1 + seen_C)[None, :] ** 2).sum(
            1, keepdims=True
        )
        return row_R1[:, :, None] % len(TABLE), cache | {"k": k}

    def logits(self, x_R1D):
        return jnp.asarray(TABLE)[x_R1D[..., 0]]


def score(source, target):
    """The sum of the log probabilities of a target, token by token."""
    total, seen = 0.0, [START]
    for token in target:
        row = (source + sum(t * (1 + i) ** 2 for i, t in enumerate(seen))) % len(TABLE)
        total += TABLE[row][token]
        seen.append(token)
    return total


def targets():
    """All that beam search may return: they end with EOS, or have T tokens."""
    for length in range(1, T + 1):
        for target in itertools.product(range(V), repeat=length):
            if EOS not in target[:-1] and (target[-1] == EOS or length == T):
                yield target


def run(sources, **options):
    ids_BS = np.array(sources, np.int32)[:, None]
    tokens = {"start_id": START, "pad_id": PAD, "eos_id": EOS, "max_new_tokens": T}
    search = jax.jit(lambda ids, mask: beam_search(HistoryModel(), ids, mask, **tokens | options))
    return [tuple(row) for row in search(ids_BS, np.ones_like(ids_BS, bool)).tolist()]


@pytest.mark.parametrize("length_penalty", [0.5, 1.0, 2.5])
def test_enough_beams_find_the_best_target_of_all(length_penalty):
    sources, lengths = tuple(range(10)), set()
    found = run(
        sources, num_beams=V ** (T - 1), length_penalty=length_penalty, early_stopping="never"
    )
    for source, row in zip(sources, found, strict=True):
        best = max(targets(), key=lambda t: score(source, t) / len(t) ** length_penalty)
        assert row == best + (PAD,) * (T - len(best))
        lengths.add(len(best))
    assert len(lengths) > 1 or length_penalty == 2.5  # which long ones always win


def search(source, num_beams):
    """Beam search of one source that stops early, in plain Python."""
    running, done = [(0.0, ())], []
    for i in range(T):
        found = [(score(source, (*t, v)), (*t, v)) for _, t in running for v in range(V)]
        found = sorted(found, reverse=True)[: 2 * num_beams]
        ends = [target[-1] == EOS or i == T - 1 for _, target in found]
        top = zip(found[:num_beams], ends[:num_beams], strict=True)
        done += [(s / len(target), target) for (s, target), end in top if end]
        running = [each for each, end in zip(found, ends, strict=True) if not end][:num_beams]
        if len(done) >= num_beams:
            break
    return max(done)[1]


@pytest.mark.parametrize("num_beams", [2, 3, 5])
def test_beams_keep_their_own_history(num_beams):
    sources = tuple(range(len(TABLE)))
    found = run(sources, num_beams=num_beams, early_stopping=True)
    expected = [search(source, num_beams) for source in sources]
    assert found == [target + (PAD,) * (T - len(target)) for target in expected]
    assert found != run(sources, num_beams=1, early_stopping=True)


def test_one_beam_that_stops_early_is_greedy():
    sources = tuple(range(20))
    found = run(sources, num_beams=1, early_stopping=True)
    for source, row in zip(sources, found, strict=True):
        target = ()
        while len(target) < T and EOS not in target:
            target += (int(np.argmax([score(source, (*target, t)) for t in range(V)])),)
        assert row == target + (PAD,) * (T - len(target))
    assert len(set(found)) > 5


def test_a_row_does_not_depend_on_the_others():
    sources = (1, 5, 8, 13, 17)
    together = run(sources, num_beams=3)
    assert together == [row for source in sources for row in run((source,), num_beams=3)]


def test_forced_tokens_come_first_and_last():
    sources = tuple(range(20))
    found = run(sources, num_beams=3, forced_bos_id=1, forced_eos_id=EOS)
    assert {row[0] for row in found} == {1}
    assert all(EOS in row for row in found) and any(row[-1] == EOS for row in found)
    free = run(sources, num_beams=3)
    assert {row[0] for row in free} != {1} and not all(EOS in row for row in free)


@pytest.mark.parametrize("options", [{"num_beams": 0}, {"num_beams": 2, "max_new_tokens": 0}])
def test_impossible_options_are_named(options):
    with pytest.raises(ValueError, match="num_beams and max_new_tokens must be at least 1"):
        run((1,), **options)
