"""The recipe preference: which losses there are, what each learns from, and what a user may not ask for."""

import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bad_input import complaint
from recipes.test_dpo import ASK, BAD, GOOD, TOKENS, Bigrams, encoder

from redco_new.generate.read import read_model
from redco_new.models.recipes import RECIPES
from redco_new.render.execute import load_text
from redco_new.render.template import open_template
from redco_new.request import Request
from redco_runtime.base.messages import UserError
from redco_runtime.data.chats.opinions import opinion_examples, pack_opinions, read_said
from redco_runtime.data.chats.pairs import pack_pairs

SETTINGS = SimpleNamespace(sequence_length=48, held_out=0.0)


def pipeline(loss):
    facts = ("project", False, False, False)
    with open_template() as template:
        texts = RECIPES["preference"].by(loss).print_files(template, *facts)
    return load_text(f"preference/{loss}.py", texts["pipeline.py"])


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (
            "--recipe preference --loss hinge",
            "no loss 'hinge'; choose one of ipo, kto, orpo, simpo",
        ),
        ("--recipe lm --loss ipo", "the recipe lm has no loss 'ipo'; leave it out"),
        ("--recipe dpo --loss ipo", "the recipe dpo has no loss 'ipo'; choose one of dpo"),
    ],
)
def test_a_loss_that_a_recipe_has_not_is_refused(flags, why):
    assert why in complaint(f"redco-new my-project --model gpt2 {flags}")


def test_the_loss_of_a_recipes_own_model_is_in_its_pipeline():
    error = complaint("redco-new my-project --recipe maml --loss ipo")
    assert "--loss: the model of maml is no family" in error


@pytest.mark.parametrize("loss", ["ipo", "kto", "orpo", "simpo"])
def test_a_reference_is_there_where_the_loss_compares_with_one(loss):
    request = Request.from_flags("a", "gpt2", recipe="preference", loss=loss, shards="1")
    with open_template() as template:
        names = {*read_model(request, template).branches}
    assert names == ({"policy", "reference"} if loss in ("ipo", "kto") else {"policy"})


def test_another_recipe_has_a_loss_of_its_own():
    request = Request.from_flags("a", "gpt2", recipe="preference", loss="kto", shards="1")
    assert request.with_flags(recipe="sft").loss == ""
    assert Request.from_toml(request.to_toml()).loss == "kto"


def test_the_losses_of_pairs_are_the_formulas():
    """Beside those that TRL computes: tests/tools/parity."""
    train, _ = pack_pairs([([ASK, GOOD], [ASK, BAD]), ([ASK, BAD], [GOOD])], SETTINGS, encoder())
    policy, reference = Bigrams(0), Bigrams(1)

    def ours(loss, **settings):
        own = pipeline(loss)
        batch = own.collate([train[0], train[1]])
        models = SimpleNamespace(policy=policy, reference=reference, **settings)
        return batch, own.loss(models, jax.tree.map(jnp.asarray, batch), None)[0]

    batch, ipo = ours("ipo", beta=0.1)
    shape = batch["learned"].shape[:2]
    count = np.array([[side[1:].sum() for side in pair] for pair in batch["learned"]])
    means = [
        np.array(
            [
                model.score(ids, learned)
                for ids, learned in zip(*(x.reshape(4, 48) for x in sides(batch)), strict=True)
            ]
        ).reshape(shape)
        / count
        for model in (policy, reference)
    ]
    gain = means[0] - means[1]
    np.testing.assert_allclose(ipo, (gain[:, 0] - gain[:, 1] - 5) ** 2, rtol=1e-4)
    _, simpo = ours("simpo", beta=2.0, margin=1.0)
    margin = 2 * (means[0][:, 0] - means[0][:, 1]) - 1
    np.testing.assert_allclose(simpo, np.log1p(np.exp(-margin)), rtol=1e-4)
    _, orpo = ours("orpo", beta=0.1)
    odds = means[0] - np.log1p(-np.exp(means[0]))
    whole = [
        -policy.score(ids, mask)
        for ids, mask in zip(batch["input_ids"][:, 0], chosen(batch), strict=True)
    ]
    tokens = [mask[1:].sum() for mask in chosen(batch)]
    better = np.log1p(np.exp(-(odds[:, 0] - odds[:, 1])))
    np.testing.assert_allclose(
        np.mean(orpo), np.sum(whole) / np.sum(tokens) + 0.1 * np.mean(better), rtol=1e-4
    )


def sides(batch):
    return batch["input_ids"], batch["learned"]


def chosen(batch):
    return batch["mask"][:, 0]


def opinions(tmp_path, *rows, **changes):
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields = {"data": (str(tmp_path / "chats.jsonl"),), "held_out_data": (), "held_out": 0.0}
    fields |= {"skip_bad_rows": 0, "sequence_length": 48, "token_folder": str(tmp_path / "tokens")}
    return opinion_examples(SimpleNamespace(**fields | changes), encoder(), 384)[0]


def test_single_answers_and_pairs_are_read_as_good_or_not(tmp_path):
    rows = [
        {"prompt": "Hi", "completion": "Hello.", "label": True},
        {"messages": [ASK, BAD], "label": 0},
        {"prompt": "Hi", "chosen": "Hello.", "rejected": "What?"},
    ]
    train = opinions(tmp_path, *rows)
    read = [read_said(train[i]) for i in range(4)]
    assert [bool(chat["good"]) for chat in read] == [True, False, True, False]
    answers = [TOKENS.decode(chat["input_ids"][chat["learned"]]) for chat in read]
    assert answers == ["Hello.</s>", "What?</s>"] * 2


@pytest.mark.parametrize("label", [None, "good", 2])
def test_a_label_is_true_or_false(tmp_path, label):
    row = {"prompt": "Hi", "completion": "Hello.", "label": label}
    with pytest.raises(UserError, match=r"line 1.* has no 'label' that is true or false"):
        opinions(tmp_path, row)


def test_kto_compares_with_the_answers_of_other_rows():
    kto = pipeline("kto")
    asks = [{"role": "user", "content": text} for text in ("Hi", "Who?", "Well")]
    chats = [
        ([ask, answer], good)
        for ask, answer, good in zip(asks, (GOOD, BAD, GOOD), (True, False, True), strict=True)
    ]
    train, _ = pack_opinions(chats, SETTINGS, encoder())
    batch = kto.collate([train[i] for i in range(3)])
    swapped = jax.tree.map(np.asarray, kto.swap_answers(jax.tree.map(jnp.asarray, batch)))
    for row in range(3):
        start = int(batch["learned"][row].argmax())
        other = batch["input_ids"][row - 1][batch["learned"][row - 1]]
        ids, learned = swapped["input_ids"][row], swapped["learned"][row]
        np.testing.assert_array_equal(ids[:start], batch["input_ids"][row][:start])
        np.testing.assert_array_equal(ids[learned], other[: learned.sum()])
        assert learned.sum() == min(len(other), 48 - start) and not learned[:start].any()
    policy, reference = Bigrams(0), Bigrams(1)
    models = SimpleNamespace(policy=policy, reference=reference)
    settings = {"beta": 0.1, "desirable_weight": 2.0, "undesirable_weight": 3.0}
    losses, _, terms = kto.loss(
        SimpleNamespace(**vars(models), **settings), jax.tree.map(jnp.asarray, batch), None
    )

    def gains(rows):
        return np.array(
            [
                policy.score(ids, learned) - reference.score(ids, learned)
                for ids, learned in zip(*sides(rows), strict=True)
            ]
        )

    divergence = max(gains(swapped).mean(), 0)
    side = np.array([1, -1, 1])
    expected = 1 - 1 / (1 + np.exp(-side * 0.1 * (gains(batch) - divergence)))
    np.testing.assert_allclose(losses, expected * np.array([2, 3, 2]), rtol=1e-4)
    np.testing.assert_allclose(terms["kl"][0], divergence, rtol=1e-4)
