"""The recipe grpo: its loss by the plain formula, questions of files, the rows of answers, and rewards that are none."""

import json
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recipes.pipelines import pipeline

from redco_new.generate.layout import layout_context
from redco_new.generate.plan import plan_program
from redco_new.generate.read import read_model
from redco_new.render.template import open_template
from redco_new.request import Request

from redco_runtime.data.chats.reading import with_system
from redco_runtime.data.completions.groups import (
    advantages,
    answer_room,
    answer_rows,
    put_first,
    reward_answers,
    score_answers,
)
from redco_runtime.data.completions.questions import question_examples
from redco_runtime.data.batches import batch_indices
from redco_runtime.base.messages import UserError, announce
from redco_runtime.step.gradients import weighted_sum

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


@pytest.fixture
def answered():
    """(models, batch, what the loss of each token of an answer is, its mask): two answers, of 2 and 3 tokens."""
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
    mask = np.array([[0, 1, 1, 0, 0, 0], [0, 1, 1, 1, 0, 0]])
    losses = np.zeros((2, 6))
    for g, t in zip(*np.nonzero(mask), strict=True):
        ids = rows["input_ids"][g]
        new = log_VV[ids[t], ids[t + 1]]
        ratio, gain = np.exp(new - old[0, g, t]), advantage[0, g]
        gained = min(ratio * gain, np.clip(ratio, 0.8, 1.2) * gain)
        apart = reference[0, g, t] - new
        losses[g, t] = 0.5 * (np.exp(apart) - apart - 1) - gained
    models = SimpleNamespace(policy=policy, kl=0.5, new_tokens=3, loss="dapo")
    return models, batch, losses, mask


def test_the_loss_is_the_formula(answered):
    """Of Shao et al. 2024, token by token, and it learns from nothing but answers."""
    models, batch, expected, mask = answered
    losses, weights = grpo.loss(models, batch, None)
    assert (weights[0] == mask).all()
    np.testing.assert_allclose(losses[0] * mask, expected, rtol=1e-4)


TRL = json.loads(Path(__file__).with_name("grpo_trl.json").read_text())


@pytest.mark.parametrize("kind", TRL["losses"])
def test_each_loss_is_trls(monkeypatch, kind):
    """As its GRPOTrainer, of version 1.16, computes it of the same probabilities: tests/tools/parity/grpo_losses.py."""
    answers = [[answer] for answer in range(3)]
    names = {"new": "new", "old": "log_prob", "reference": "reference", "mask": "answered"}
    batch = {own: np.array(TRL[name], np.float32) for name, own in names.items()}
    pairs = {name: x.reshape(3, 2, -1) for name, x in batch.items()}
    # A token is of the place before it, and the last place has none.
    pairs = {name: np.pad(x, ((0, 0), (0, 0), (0, 1))) for name, x in pairs.items()}
    pairs["answered"] = np.roll(pairs["answered"], 1, axis=-1).astype(bool)
    pairs |= {
        "advantage": np.array(TRL["advantage"], np.float32).reshape(3, 2),
        "input_ids": answers,
    }
    monkeypatch.setattr(grpo, "log_probs", lambda model, ids: pairs["new"])
    models = SimpleNamespace(policy=None, kl=TRL["kl"], new_tokens=TRL["new_tokens"], loss=kind)
    total, weight = weighted_sum(grpo.loss(models, jax.tree.map(jnp.asarray, pairs), None))
    np.testing.assert_allclose(total / weight, TRL["losses"][kind], rtol=1e-5)


def test_several_rewards_are_a_sum_by_their_weights(monkeypatch):
    def brief(question, answer, text):
        return 1 / len(text)

    monkeypatch.setattr(grpo, "REWARDS", ((grpo.reward, 1.0), (brief, 0.5)))
    config = SimpleNamespace(
        data=SimpleNamespace(tokenizer="bytes", sequence_length=16),
        train=SimpleNamespace(new_tokens=2, guided=False, reward_model="", deviation="sample"),
    )
    (question,) = grpo.prompts(config, ["3+4="])
    tokens = np.array([[ord(x) + 3 for x in text] for text in ("7a", "5b")])

    def predict(rows):
        drawn = "answered" not in rows[0]
        return tokens[None] if drawn else {"log_prob": np.zeros((1, 2, 16))}

    (row,) = grpo.rollout(config, [question | {"answer": "7"}], predict, False)
    assert row["reward"].tolist() == pytest.approx([1.25, 0.35])
    monkeypatch.setattr(grpo, "REWARDS", ((lambda *_: 0.0, 1.0), (lambda *_: np.nan, 0.0)))
    with pytest.raises(UserError, match=r"<lambda>\(\) in pipeline.py: it gives nan"):
        grpo.rollout(config, [question | {"answer": "7"}], predict, False)


def test_advantages_are_within_a_group():
    """Of the sample's deviation, as torch.std has it; of a run from before, of the population's."""
    rewards = np.array([1.0, 0.0, 0.0, 1.0])
    sample = advantages(rewards, "sample")
    np.testing.assert_allclose(sample, (rewards - 0.5) / (3**-0.5 + 1e-4), rtol=1e-6)
    np.testing.assert_allclose(advantages(rewards, "population"), [1, -1, -1, 1], rtol=1e-3)
    assert advantages(np.full(4, 0.3), "sample").tolist() == [0.0] * 4


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


def test_a_reward_that_fails_is_said_with_what_it_fails_for():
    def reward(question, answer, text):
        return float(text)

    rows = [{"question": "3+4=", "answer": "7"}]
    with pytest.raises(UserError) as error:
        reward_answers(reward, rows, [["7", "x"]])
    lines = str(error.value).splitlines()
    what = 'answer "x", question "3+4=", right answer "7"'
    assert lines[0] == f"reward() in pipeline.py fails for {what}:"
    assert lines[1].endswith("in reward") and "return float(text)" in lines[2]
    assert lines[-1] == "ValueError: could not convert string to float: 'x'"
    assert not any("score_answers" in line for line in lines)


@pytest.mark.parametrize("value", [None, "1", float("nan"), np.inf, [1.0]])
def test_a_reward_that_is_no_number_is_one_message(value):
    def reward(text):
        return value

    with pytest.raises(UserError) as error:
        score_answers(reward, ["an answer"])
    message = (
        f"reward() in pipeline.py: it gives {value!r} for the answer 'an answer': give a finite"
    )
    assert str(error.value).startswith(message)


def test_a_guide_is_a_text():
    with pytest.raises(UserError, match=r"--guided: an answer is no text, \{.*--answer-field"):
        put_first(np.full((1, 2, 3), 9), [{"tests": {1}}], grpo.encoder("bytes"))


@pytest.fixture
def questions(tmp_path):
    """questions(*rows, **settings): those of a file, each of 8 tokens at most."""

    def questions(*rows, **changes):
        path = tmp_path / "questions.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        fields = {"data": (str(path),), "held_out_data": (), "held_out": 0.0, "skip_bad_rows": 0}
        fields |= {"prompt_field": "prompt", "answer_field": "answer"}
        return question_examples(
            SimpleNamespace(**fields | changes), grpo.encoder("bytes"), 8, vocabulary=384
        )

    return questions


TOLD = [{"role": "system", "content": "Add "}, {"role": "user", "content": "1+1="}]
ROWS = [{"prompt": "3+4=", "answer": "7"}, {"prompt": TOLD, "answer": 2}]


def test_questions_of_a_file(questions):
    """A chat is asked as a whole, and reward() gets what is said last; a number is a text by then."""
    train, held_out = questions(*ROWS)
    asked = [grpo.tokenizer("bytes").decode(row["input_ids"][row["mask"]]) for row in train]
    assert asked == ["3+4=", "Add 1+1="] and held_out == []
    assert [(row["question"], row["answer"]) for row in train] == [("3+4=", "7"), ("1+1=", "2")]
    assert train[0]["input_ids"].shape == (8,)
    assert reward_answers(grpo.reward, [train[1]], [["2", "3"]])[0].tolist() == pytest.approx(
        [1.0, 0.1]
    )
    assert reward_answers(grpo.reward, [{"question": "3+4="}], [["7", ""]]).tolist() == [
        [0.0, 0.0]
    ]  # a prompt


def test_a_system_message_comes_before_a_prompt():
    """And reward() would get the question alone."""
    config = SimpleNamespace(
        data=SimpleNamespace(tokenizer="bytes", sequence_length=16),
        train=SimpleNamespace(new_tokens=2),
    )
    (row,) = grpo.prompts(config, with_system(["1+1="], "Add "))
    assert row["question"] == "1+1=" and row["input_ids"].shape == (14,)
    assert grpo.tokenizer("bytes").decode(row["input_ids"][row["mask"]]) == "Add 1+1="
    with pytest.raises(UserError, match="--prompt: an empty prompt asks nothing"):
        grpo.prompts(config, [""])


def test_a_reward_may_need_the_whole_row(questions):
    row = {"question": "3+4=", "tests": ["7"], "answer": None}
    train, _ = questions(row, prompt_field="question", answer_field="")
    assert train[0]["answer"] == row
    train, _ = questions(row, prompt_field="question", answer_field="tests")
    assert train[0]["answer"] == ["7"]


def test_questions_that_are_held_out_are_not_learned_from(questions, tmp_path, capsys):
    rows = [{"prompt": f"{i}+1=", "answer": i + 1} for i in range(20)]
    train, held_out = questions(*rows, held_out=0.25)
    assert (len(train), len(held_out)) == (15, 5)
    both = {row["question"] for row in (*train, *held_out)}
    assert len(both) == 20 and held_out[0] is held_out[0]
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps(ROWS[0]) + "\n")
    announce.cache_clear()
    train, held_out = questions(*rows, held_out=0.25, held_out_data=(str(other),))
    assert len(train) == 20 and [row["question"] for row in held_out] == ["3+4="]
    assert "trained on too" not in capsys.readouterr().out
    questions(*rows, ROWS[0], held_out=0.0, held_out_data=(str(other),))
    said = "data: 1 of 1 questions that are held out are trained on too"
    assert said in capsys.readouterr().out


def test_sources_have_shares_of_the_rounds(questions, tmp_path):
    (tmp_path / "other.jsonl").write_text(json.dumps({"prompt": "9+9=", "answer": 18}) + "\n")
    data = (f"{tmp_path}/questions.jsonl=0.75", f"{tmp_path}/other.jsonl=0.25")
    train, _ = questions(*ROWS, data=data)
    order = batch_indices(train, 0, 0, 10_000)
    assert sum(train[i]["question"] == "9+9=" for i in set(order.tolist())) == 1
    assert np.mean(order == 2) == 0.25


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ([1], r"is no object: \[1\]"),
        ({"question": "1+1="}, "has question, and no 'prompt': --prompt-field and"),
        ({"prompt": "1+1="}, "has prompt, and no 'answer'"),
        ({"prompt": " ", "answer": 1}, "asks nothing: it has no text"),
        ({"prompt": 3, "answer": 1}, "whose content is no text"),
        ({"prompt": [{"role": "assistant", "content": "2"}], "answer": 1}, "and asks nothing"),
        ({"prompt": "100+100=?", "answer": 200}, "has 9 tokens, and a question has 1 to the 8"),
    ],
)
def test_what_is_no_question_is_named_with_its_line(questions, row, why):
    with pytest.raises(UserError, match=f"line 3 .*{why}"):
        questions(*ROWS, row)
    train, _ = questions(*ROWS, row, skip_bad_rows=1)
    assert len(train) == 2


def test_no_question_is_one_message(questions):
    with pytest.raises(UserError, match="--data: .*questions.jsonl has no question"):
        questions({}, skip_bad_rows=1)
    with pytest.raises(UserError, match="--held-out: 2 is no share"):
        questions(*ROWS, held_out=2)


def test_a_question_needs_room():
    assert answer_room(8, 2) == 6
    for tokens in (0, 8):
        with pytest.raises(
            UserError, match="--new-tokens: .* of --sequence-length 8: give 1 at least"
        ):
            answer_room(8, tokens)


def test_the_reference_lies_as_the_policy_that_it_starts_as():
    """It is no part of the loss, so that nothing there says where: its layers were split over `model`."""
    request = Request.from_flags("a", "gpt2", recipe="grpo", shards="4")
    with open_template() as template:
        plan = plan_program(request, read_model(request, template).program())
    specs = dict(zip((p.path for p in plan.parameters), plan.partitions, strict=True))
    of = {
        branch: {
            path.removeprefix(branch): x for path, x in specs.items() if path.startswith(branch)
        }
        for branch in ("policy/", "reference/")
    }
    assert of["policy/"] == of["reference/"] and len(specs) == 2 * len(of["policy/"])
    _, table = layout_context(request, plan, None, ("policy", "reference")).tables
    assert table.parts == ["POLICY"]


@pytest.fixture(scope="module")
def served():
    """pipeline.py of a project whose answers a server may draw."""
    return pipeline("grpo", features=("rollouts",))


@pytest.mark.parametrize("kind", ["dapo", "grpo", "gspo"])
@pytest.mark.parametrize("factor", [1.0, 0.5, 4.0])
def test_a_token_counts_by_how_else_it_was_drawn_up_to_a_cap(answered, served, kind, factor):
    models, batch, _, mask = answered
    models.loss, models.kl, models.importance_cap = kind, 0.0, 2.0
    plain, weights = grpo.loss(models, batch, None)
    batch |= {"sampled": batch["log_prob"] - np.log(factor), "stale": jnp.array([3.0])}
    losses, same, terms = served.loss(models, batch, None)
    assert (same == weights).all()
    np.testing.assert_allclose(losses * weights, min(factor, 2.0) * plain * weights, rtol=1e-5)
    values = {name: float((x * weights).sum() / weights.sum()) for name, (x, _) in terms.items()}
    expected = {"importance": factor, "truncated": float(factor > 2), "apart": abs(np.log(factor))}
    assert values == pytest.approx(expected | {"stale_steps": 3.0}, abs=1e-6)
    assert {share for _, share in terms.values()} == {0.0}


def test_answers_of_a_server_are_rows(served):
    from redco_runtime.actors.served import Drawn

    train = dict(new_tokens=2, guided=True, reward_model="", deviation="sample")
    config = SimpleNamespace(
        data=SimpleNamespace(tokenizer="bytes", sequence_length=16), train=SimpleNamespace(**train)
    )
    (question,) = served.prompts(config, ["3+4="])
    tokens = np.array([[[ord(x) + 3 for x in text] for text in ("7a", "5b")]])
    answers = Drawn(tokens, np.full((1, 2, 2), -1.25, np.float32), np.array([6.0], np.float32))

    def predict(rows):
        drawn = "answered" not in rows[0]
        return answers if drawn else {"log_prob": np.full((1, 2, 16), -1.0, np.float32)}

    (row,) = served.rollout(config, [question | {"answer": "7"}], predict, True)
    places = np.flatnonzero(row["answered"][1]) - 1
    assert row["sampled"][0].tolist() == [-1.0] * 16  # the guide, which nobody drew
    assert row["sampled"][1, places].tolist() == [-1.25] * 2 and row["stale"] == 6
    assert {*served.LEARNED} - {*grpo.LEARNED} == {"sampled", "stale"}
    (row,) = served.rollout(
        config, [question], lambda rows: predict(rows) if "answered" in rows[0] else tokens, False
    )
    assert (row["sampled"] == -1.0).all() and row["stale"] == 0
