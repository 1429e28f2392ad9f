"""The recipe grpo: its loss by the plain formula, the rows of answers, and rewards that are none."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recipes.pipelines import pipeline

from redco_runtime.completions.groups import (
    advantages,
    answer_room,
    answer_rows,
    put_first,
    score_answers,
)
from redco_runtime.errors import UserError

grpo = pipeline("grpo")
ENDS = [1]
QUESTION = {"input_ids": np.array([5, 6, 0], np.int32), "mask": np.array([True, True, False])}


def test_an_answer_ends_with_what_ends_it():
    tokens_GT = np.array([[7, 1, 8], [7, 8, 9], [1, 1, 7]])
    rows = answer_rows(QUESTION, tokens_GT, ENDS)
    assert rows["input_ids"].tolist() == [
        [5, 6, 7, 1, 0, 0],
        [5, 6, 7, 8, 9, 0],
        [5, 6, 1, 0, 0, 0],
    ]
    assert rows["answered"].sum(axis=1).tolist() == [2, 3, 1]
    assert not rows["answered"][:, :2].any() and not rows["answered"][:, 5].any()


def test_the_loss_is_the_formula():
    """Of Shao et al. 2024, token by token, and it learns from nothing but answers."""
    table_VV = jax.random.normal(jax.random.key(0), (10, 10))
    log_VV = np.asarray(jax.nn.log_softmax(table_VV))
    policy = SimpleNamespace(
        hidden=lambda ids: jax.nn.one_hot(ids, 10), logits=lambda x: x @ table_VV
    )
    rows = answer_rows(QUESTION, np.array([[7, 1, 8], [7, 8, 9]]), ENDS)
    draw = np.random.default_rng(0)
    old, reference = draw.normal(-2, 1, (2, 1, 2, 6)).astype(np.float32)
    advantage = np.array([[1.0, -1.0]], np.float32)
    batch = {name: x[None] for name, x in rows.items()} | {"advantage": advantage}
    batch = jax.tree.map(jnp.asarray, batch | {"log_prob": old, "reference": reference})
    losses, weights = grpo.loss(SimpleNamespace(policy=policy, kl=0.5), batch, None)
    assert weights[0].tolist() == [[0, 1, 1, 0, 0, 0], [0, 1, 1, 1, 0, 0]]
    for g, t in zip(*np.nonzero(np.asarray(weights[0])), strict=True):
        ids = rows["input_ids"][g]
        new = log_VV[ids[t], ids[t + 1]]
        ratio, gain = np.exp(new - old[0, g, t]), advantage[0, g]
        gained = min(ratio * gain, np.clip(ratio, 0.8, 1.2) * gain)
        apart = reference[0, g, t] - new
        expected = 0.5 * (np.exp(apart) - apart - 1) - gained
        np.testing.assert_allclose(losses[0, g, t], expected, rtol=1e-4)


def test_advantages_are_within_a_group():
    np.testing.assert_allclose(
        advantages(np.array([1.0, 0.0, 0.0, 1.0])), [1, -1, -1, 1], rtol=1e-3
    )
    assert advantages(np.full(4, 0.3)).tolist() == [0.0] * 4


def test_a_guide_takes_the_place_of_the_first_answer():
    own = grpo.encoder("bytes")
    tokens_BGT = np.full((1, 2, 3), 9)
    guided = put_first(tokens_BGT, ["12"], own)
    assert own.read_answers(guided[0])[0] == "12" and guided[0, 1].tolist() == [9, 9, 9]
    assert tokens_BGT.tolist() == [[[9] * 3] * 2]


def test_the_reward_of_a_sum():
    texts = ("7", "7x", "77", "x7", "")
    assert [grpo.reward("3+4=", "7", text) for text in texts] == [1.0, 1.0, 0.1, 0.0, 0.0]
    assert score_answers(lambda text: len(text), texts).tolist() == [1, 2, 2, 2, 0]


@pytest.mark.parametrize("value", [None, "1", float("nan"), np.inf, [1.0]])
def test_a_reward_that_is_no_number_is_one_message(value):
    with pytest.raises(UserError) as error:
        score_answers(lambda text: value, ["an answer"])
    message = (
        f"reward() in pipeline.py: it gives {value!r} for the answer 'an answer': give a finite"
    )
    assert str(error.value).startswith(message)


def test_a_question_needs_room():
    assert answer_room(8, 2) == 6
    for tokens in (0, 8):
        with pytest.raises(UserError, match="leave a question no room"):
            answer_room(8, tokens)
