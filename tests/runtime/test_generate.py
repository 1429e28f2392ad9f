"""generate() with a model whose next token is known: its own token plus what it attends to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from redco_runtime.nn.generate import generate, likeliest

V = 50


@pytest.fixture(autouse=True)
def strict_ranks():
    with jax.numpy_rank_promotion("raise"):
        yield


class SumModel:
    """Likeliest token: (7 * own id + sum over visible slots of id * (position + 1)) % V."""

    def __init__(self):
        self.cache_shapes, self.decoded_lengths = [], []

    def init_cache(self, batch, length):
        self.cache_shapes.append((batch, length))
        return jnp.zeros((batch, length), jnp.int32)

    def decode(self, input_ids_BS, positions_BS, mask_BT, cache_BT, index):
        S, T = input_ids_BS.shape[1], mask_BT.shape[1]
        self.decoded_lengths.append(S)
        products_BS = input_ids_BS * (positions_BS + 1)
        cache_BT = jax.lax.dynamic_update_slice(cache_BT, products_BS, (0, index))
        causal_ST = jnp.arange(T)[None, :] <= index + jnp.arange(S)[:, None]
        visible_BST = mask_BT[:, None, :] & causal_ST[None, :, :]
        sums_BS = jnp.where(visible_BST, cache_BT[:, None, :], 0).sum(axis=-1)
        return (7 * input_ids_BS + sums_BS)[..., None], cache_BT

    def logits(self, x_BSD):
        return jax.nn.one_hot(x_BSD[..., 0] % V, V)


class FixedModel:
    """The same logits at every step."""

    logits_V = jnp.array([0.0, 1.0, 2.0, -1.0])

    def init_cache(self, batch, length):
        return ()

    def decode(self, input_ids_BS, positions_BS, mask_BT, cache, index):
        return jnp.zeros((*input_ids_BS.shape, 1)), cache

    def logits(self, x_BSD):
        return x_BSD + self.logits_V[None, None, :]


def _expected(prompt, count):
    tokens = [int(token) for token in prompt]
    for _ in range(count):
        total = sum(token * (i + 1) for i, token in enumerate(tokens))
        tokens.append((7 * tokens[-1] + total) % V)
    return tokens[len(prompt) :]


def _prompts(lengths, S, seed=0):
    ids_BS = np.random.default_rng(seed).integers(1, V, (len(lengths), S), dtype=np.int32)
    return ids_BS, np.arange(S)[None, :] < np.array(lengths)[:, None]


def _generate(model, ids_BS, mask_BS, count, temperature=0.0, seed=0, **more):
    options = {"max_new_tokens": count, "temperature": temperature, "key": jax.random.key(seed)}
    options |= more
    return jax.jit(lambda ids, mask: generate(model, ids, mask, **options))(ids_BS, mask_BS)


def _sample(temperature, seed, rows):
    return np.asarray(_generate(FixedModel(), *_prompts([3] * rows, 3), 2, temperature, seed))


@pytest.mark.parametrize("count", [1, 2, 9])
def test_rows_of_any_length_continue_their_own_prompt(count):
    lengths = (4, 1, 7, 6)
    ids_BS, mask_BS = _prompts(lengths, S=7)
    tokens_BT = _generate(SumModel(), ids_BS, mask_BS, count)
    assert tokens_BT.shape == (4, count) and tokens_BT.dtype == jnp.int32
    for row, length in enumerate(lengths):
        assert tokens_BT[row].tolist() == _expected(ids_BS[row, :length], count)


def test_padding_ids_do_not_matter():
    ids_BS, mask_BS = _prompts((2, 5), S=6)
    other_BS = np.where(mask_BS, ids_BS, 49 - ids_BS)
    assert (other_BS != ids_BS).any()
    first, second = (_generate(SumModel(), ids, mask_BS, 6) for ids in (ids_BS, other_BS))
    assert (first == second).all()


def test_the_prompt_is_computed_once_and_the_cache_has_no_spare_slot():
    model = SumModel()
    _generate(model, *_prompts((2, 5), S=6), 8)
    assert model.cache_shapes == [(2, 6 + 8 - 1)]
    assert model.decoded_lengths == [6, 1]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_samples_follow_the_distribution_at_a_temperature(temperature):
    tokens_BT = _sample(temperature, seed=1, rows=4096)
    expected_V = jax.nn.softmax(FixedModel.logits_V / temperature)
    for tokens_B in tokens_BT.T:
        np.testing.assert_allclose(np.bincount(tokens_B, minlength=4) / 4096, expected_V, atol=0.03)


def test_samples_depend_on_key_row_and_step():
    tokens_BT = _sample(1.0, seed=1, rows=64)
    assert (tokens_BT == _sample(1.0, seed=1, rows=64)).all()
    assert (tokens_BT != _sample(1.0, seed=2, rows=64)).any()
    assert (tokens_BT[:, 0] != tokens_BT[:, 1]).any()
    assert len(set(tokens_BT[:, 0].tolist())) > 1


def test_a_row_ends_with_the_first_of_the_ids_that_end_a_text():
    prompts = _prompts((2, 5, 3), S=6)
    whole = np.asarray(_generate(SumModel(), *prompts, 9))
    stop_ids = {int(whole[0, 3]), int(whole[1, 0])}  # the third goes on, unless it has one of them
    cut = np.asarray(_generate(SumModel(), *prompts, 9, stop_ids=sorted(stop_ids)))
    for row, tokens in zip(cut, whole, strict=True):
        at = next((i for i, token in enumerate(tokens) if int(token) in stop_ids), 8)
        assert row.tolist() == [*tokens[: at + 1], *[tokens[at]] * (8 - at)]


def test_nothing_is_computed_once_all_rows_have_ended():
    steps = []

    class Counting(SumModel):
        def logits(self, x_BSD):
            jax.debug.callback(lambda _: steps.append(1), x_BSD[0, 0, 0])
            return super().logits(x_BSD)

    prompts = _prompts((2,), S=2)
    stop = int(_generate(SumModel(), *prompts, 3)[0, 2])
    _generate(Counting(), *prompts, 30, stop_ids=(stop,)).block_until_ready()
    jax.effects_barrier()
    assert 1 <= len(steps) <= 3


@pytest.mark.parametrize(("top_k", "top_p"), [(3, 1.0), (0, 0.6), (0, 1e-6), (4, 0.7), (999, 1.0)])
def test_tokens_that_are_drawn_from_are_those_of_transformers(top_k, top_p):
    import torch
    from transformers import TopKLogitsWarper, TopPLogitsWarper

    logits_BV = np.random.default_rng(0).normal(size=(16, 30)).astype(np.float32) * 3
    theirs = torch.tensor(logits_BV)
    for warper in (TopKLogitsWarper(top_k) if top_k else None, TopPLogitsWarper(top_p)):
        theirs = warper(None, theirs) if warper else theirs
    np.testing.assert_array_equal(likeliest(jnp.array(logits_BV), top_k, top_p), theirs.numpy())


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ((0, 0.0), {}),
        ((-1, 0.0), {}),
        ((4, -0.5), {}),
        ((4, 1.0), {"top_p": 0.0}),
        ((4, 1.0), {"top_k": -1}),
    ],
)
def test_impossible_options_are_named(options, more):
    numbers = ", ".join(map(str, options))
    with pytest.raises(ValueError, match=f"not {numbers}, {more.get('top_k', 0)} and"):
        _generate(SumModel(), *_prompts((2,), S=2), *options, **more)
