"""Recipes that bring a model of their own: how they are asked for, and what is refused."""

import numpy as np
import pytest
from generated import texts
from recipes.pipelines import config, pipeline
from redco_runtime.base.messages import UserError

from redco_new.errors import RedcoError
from redco_new.models.recipes import RECIPES, OwnModel
from redco_new.request import Request

NAMED = "--recipe: {} trains a model that you name; give"
BROUGHT = [name for name, recipe in RECIPES.items() if isinstance(recipe.model, OwnModel)]


def test_a_recipe_is_asked_for_without_a_model():
    request = Request.from_flags("a", None, recipe="maml", shards="2")
    assert Request.from_toml(request.to_toml()) == request
    assert "model =" not in request.to_toml().partition("[mesh]")[0]
    assert not request.is_family and request.with_flags(model="gpt2").is_family


def test_its_files_are_the_projects():
    files, design, _ = texts(Request.from_flags("a", None, recipe="maml", shards="2"))
    assert "class Regressor(nnx.Module)" in files["a/model.py"]
    assert not any("transformers" in line for line in files["pyproject.toml"].splitlines())
    assert design.model.own_class == "Regressor" and "your class" not in files["README.md"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"recipe": "lm"},
            "--recipe: lm trains a model that you name; give --model gpt2, or another: gemma2, ge",
        ),
        ({"recipe": "image", "lora": "rank=4"}, f"{NAMED.format('image')} --model vit"),
        ({"recipe": "seq2seq"}, f"{NAMED.format('seq2seq')} --model t5, or another: bart"),
        ({"recipe": "regress"}, "--recipe: regress trains a class of your own; give --model FILE."),
        ({"recipe": "imge"}, "--recipe: unknown recipe 'imge'; did you mean image?"),
        ({"recipe": "maml", "size": "s"}, "--size: the model of maml has none; leave it out"),
        ({"recipe": "maml", "sequence_parallel": True}, "--sequence-parallel: the model of maml"),
        ({"recipe": "maml", "mesh": "expert=2"}, "--mesh: the model of maml has no experts"),
        ({"recipe": "maml", "dtype": "float32"}, "--dtype: the model of a recipe computes in what"),
        ({"recipe": "maml", "config": "c.toml"}, "--config: no --model is no class of your own"),
        ({}, "command line: Missing option '--model'"),
        ({"model": "gpt2", "recipe": "maml"}, "--recipe: gpt2 is trained by the recipes lm, sft"),
    ],
)
def test_what_does_not_fit_is_refused(flags, message):
    with pytest.raises(RedcoError) as error:
        texts(Request.from_flags("a", **flags))
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("delta", [0.0, 2.0])
def test_privacy_that_is_none_is_refused(delta):
    """With a delta of 2 any run would have had an epsilon of 0."""
    data = {"clip": 1.0, "noise": 2.0, "expected_rows": 160, "delta": delta, "held_out": 0.2}
    with pytest.raises(UserError, match=f"--delta: {delta} is not above 0 and below 1 / 1438"):
        made = config(data, {})
        made.train.batch_size = 320
        pipeline("dp-sgd").examples(made)


def test_a_minibatch_is_a_round_at_most():
    """It was looked for without an end."""
    ppo = pipeline("ppo")
    row = {name: np.arange(3) for name in (*ppo.LEARNED, "reward")}
    made = config({"minibatch_length": 5, "round_length": 3}, {})
    (some,) = next(ppo.minibatches(made, [[row]], np.random.default_rng(0)))
    assert sorted(some[ppo.LEARNED[0]].tolist()) == [0, 1, 2]


def test_no_client_is_refused():
    with pytest.raises(UserError, match="--clients: 0: give a number above 0"):
        pipeline("fedavg").examples(config({"clients": 0, "held_out": 0.2}, {}))


def test_prompts_of_no_held_out_example_are_refused():
    for tasks, text in ((0, "0"), (3, "x"), (3, "3"), (3, "-1")):
        made = config({"tasks": tasks, "shots": 1, "held_out": 0.5}, {"inputs": 1})
        todo = "give the number of a held-out example, of" if tasks else "no example is held out"
        with pytest.raises(UserError, match=f"--prompt: {text}: {todo}"):
            pipeline("maml").prompts(made, [text])


@pytest.mark.parametrize(
    ("recipe", "size"), [("maml", {"tasks": 3, "shots": 1}), ("fedavg", {}), ("dp-sgd", {})]
)
@pytest.mark.parametrize("share", [2.0, -0.1])
def test_held_out_that_is_no_share_is_named(recipe, size, share):
    settings = config(size | {"held_out": share}, {"inputs": 1})
    settings.train.batch_size = 8
    with pytest.raises(UserError, match=f"^--held-out: {share} is no share: give one from 0"):
        pipeline(recipe).examples(settings)
