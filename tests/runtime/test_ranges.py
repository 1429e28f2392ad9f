"""Values that no run can have."""

import re
from types import SimpleNamespace

import pytest
from generated import ROOT

from redco_new.models.families import FAMILIES
from redco_new.models.find import find_model
from redco_new.models.recipes import RECIPES

from redco_runtime.base.messages import UserError
from redco_runtime.run.check_settings import RANGES, check_values


def config(**changes):
    values = {"steps": 0, "warmup_steps": 0, "ema_decay": 0.999, "clip_norm": 1.0}
    values |= {"group": 2, "kl": 0.0, "learning_rate": 1e-3, "eval_examples": 0}
    values |= {"dtype": "bfloat16", "sequence_length": 8, "max_positions": 8}
    values |= {"target_length": 8, "sample_prompts": ("a",)} | changes
    sections = {"train": ("steps", "group", "kl", "eval_examples")}
    sections |= {"optimizer": ("warmup_steps", "ema_decay", "clip_norm", "learning_rate")}
    sections |= {"data": ("sequence_length", "target_length", "sample_prompts")}
    sections |= {"model": ("dtype", "max_positions")}
    return SimpleNamespace(
        **{k: SimpleNamespace(**{n: values[n] for n in names}) for k, names in sections.items()}
    )


def test_what_runs_have_and_what_a_project_has_not_pass():
    check_values(config())
    check_values(SimpleNamespace(model=SimpleNamespace(), data=SimpleNamespace()))


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("steps", -1, "--steps: -1: give a number of 0 or more"),
        ("group", 1, "--group: 1: give a number of 2 or more"),
        ("kl", float("nan"), "--kl: nan: give a finite number"),
        ("eval_examples", -1, "--eval-examples: -1: give a number of 0 or more"),
        ("learning_rate", -1.0, "--learning-rate: -1.0: give a number of 0 or more"),
        ("warmup_steps", -5, "--warmup-steps: -5: give a number of 0 or more"),
        ("ema_decay", 1.0, "--ema-decay: 1.0: give a number from 0 to below 1"),
        ("clip_norm", 0.0, "--clip-norm: 0.0: give a number above 0"),
        ("dtype", "int7", "--dtype: no dtype of real numbers is called 'int7'"),
        ("dtype", "int8", "--dtype: no dtype of real numbers"),
        ("dtype", "complex64", "--dtype: no dtype of real numbers"),
        ("sequence_length", 9, "--sequence-length: 9 tokens, and the model has places for 8"),
        ("sequence_length", 1, "--sequence-length: 1: give a number of 2 or more"),
        ("target_length", 1, "--target-length: 1: give a number of 2 or more"),
        ("sample_prompts", ("a", "\ud83d"), "--sample-prompts: it has half a surrogate pair"),
        ("steps", 2**63, "--steps: 9223372036854775808: give a finite number below 2"),
        ("kl", float("inf"), "--kl: inf: give a finite number"),
    ],
)
def test_a_value_that_no_run_can_have_is_named(field, value, says):
    with pytest.raises(UserError, match=f"^{says}"):
        check_values(config(**{field: value}))


@pytest.mark.parametrize("field", sorted(RANGES))
@pytest.mark.parametrize("value", [-2, float("nan"), float("inf"), -(10**30), 10**23])
def test_each_setting_has_a_range(field, value):
    sections = SimpleNamespace(model=SimpleNamespace(), data=SimpleNamespace(**{field: value}))
    with pytest.raises(UserError, match=f"^--{field.replace('_', '-')}: "):
        check_values(sections)


def printed_numbers():
    """The settings that are numbers in every config.py, by what the templates and recipes print."""
    found = set()
    for recipe in RECIPES.values():
        lines = [setting.line for setting in recipe.train]
        data = ROOT / f"templates/recipes/shared/data/{recipe.data}.jinja"
        own = [ROOT / "templates/project/{{ package }}/config.py.jinja", data]
        lines += [line for file in own for line in file.read_text().splitlines()]
        found |= {m[1] for x in lines if (m := re.match(r" *(\w+): (?:int|float)\b", x))}
    recipes = ROOT / "templates/recipes"
    for file in (*recipes.glob("*/model.py*"), *recipes.glob("shared/*.jinja")):
        found |= {*re.findall(r"^    (\w+): (?:int|float) = ", file.read_text(), re.MULTILINE)}
    for family in FAMILIES:
        sizes = find_model(family, "", 1).full.sizes
        found |= {k for k, v in sizes.items() if type(v) in (int, float) and k[-3:] != "_id"}
    return found


def test_every_number_of_a_config_has_a_range():
    assert not printed_numbers() - RANGES.keys()
    assert len(printed_numbers()) > 60
