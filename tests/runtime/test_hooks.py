"""Functions of pipeline.py that have the name of a hook, and not its arguments."""

from types import SimpleNamespace

import pytest

from redco_runtime.actors.playing import Actor
from redco_runtime.base.messages import UserError
from redco_runtime.run.check_settings import check_hooks

HOOKS = {
    "collate": lambda examples: {},
    "loss": lambda model, batch, rngs: 0,
    "predict": lambda model, batch, rngs: 0,
    "decode": lambda config, outputs, examples: [],
    "examples": lambda config: ([], []),
    "prompts": lambda config, texts: [],
}


def test_hooks_with_their_arguments_and_helpers_without_a_hook_pass():
    check_hooks(SimpleNamespace(**HOOKS))
    check_hooks(SimpleNamespace(**HOOKS, evaluate=lambda config, outputs, examples: {}))
    check_hooks(SimpleNamespace(**HOOKS | {"decode": lambda *args, sep=" ": []}))
    # Without a UNIT, or minibatches, these are never called.
    check_hooks(SimpleNamespace(**HOOKS, count=lambda words, word: 0))
    check_hooks(SimpleNamespace(**HOOKS, rollout=lambda: 0), (Actor,))


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"decode": lambda ids: ""}, ["decode(ids)", "decode(config, outputs, examples)"]),
        ({"evaluate": lambda a, b: 0}, ["evaluate(a, b)", "evaluate(config, outputs, examples)"]),
        (
            {"UNIT": "tokens", "count": lambda words, word: 0},
            ["count(words, word)", "count(batch)"],
        ),
        ({"draw_predictions": "no"}, ["draw_predictions", "no function"]),
        ({"loss": lambda model, batch, rngs, *, scale: 0}, ["loss(model, batch, rngs, *, scale)"]),
    ],
)
def test_another_signature_is_named_with_the_expected_one(own, words):
    with pytest.raises(UserError) as error:
        check_hooks(SimpleNamespace(**HOOKS | own))
    assert all(x in str(error.value) for x in [*words, "in pipeline.py", "another name"])


@pytest.mark.parametrize("name", HOOKS)
def test_a_function_that_is_not_there_is_named(name):
    some = {key: hook for key, hook in HOOKS.items() if key != name}
    with pytest.raises(UserError, match=f"^pipeline.py has no {name}: training calls {name}\\("):
        check_hooks(SimpleNamespace(**some))


def test_those_of_a_model_that_makes_its_own_examples():
    pipeline = SimpleNamespace(**HOOKS, rollout=lambda policy: 0, minibatches=lambda c, r, g: [])
    with pytest.raises(UserError, match=r"rollout\(config, examples, predict, explore\)"):
        check_hooks(pipeline, (Actor,))
