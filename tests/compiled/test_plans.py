"""The plans that ours is compared with: each says something of each model, and divides."""

import jax
import pytest
from compiled.hand import HAND, hand_specs, matches, path
from compiled.program import held
from compiled.redco import redco_specs
from compiled.redco_names import NAMES
from compiled.targets import DEVICES
from compiled.worker import MODELS
from jax.sharding import PartitionSpec as P


def paths(model):
    return [path(keys) for keys, _ in jax.tree_util.tree_leaves_with_path(MODELS[model][1])]


@pytest.mark.parametrize("plans", [HAND, NAMES], ids=["hand", "redco"])
def test_every_model_has_a_plan_whose_every_line_names_a_parameter(plans):
    assert plans.keys() == MODELS.keys()
    for model, plan in plans.items():
        unused = [p for p in plan if not any(matches(name, p) for name in paths(model))]
        assert (model, unused) == (model, [])


@pytest.mark.parametrize("model", MODELS)
def test_the_dims_that_the_hand_plan_splits_divide(model):
    params = MODELS[model][1]
    for leaf, spec in zip(
        jax.tree.leaves(params), jax.tree.leaves(hand_specs(model, params)), strict=True
    ):
        assert not any(spec) or leaf.shape[len(spec) - 1] % DEVICES == 0


@pytest.mark.slow  # Redco's wheel lies with the compilers
def test_redco_splits_what_is_named_kernel_or_embedding():
    params = MODELS["llama"][1]
    layer = redco_specs("llama", params)["l"][0]
    assert layer["1"] == P(None, "model")
    assert layer["4"] == P("model", None)
    assert layer["n"] == P()
    assert 1 / DEVICES < held(params, redco_specs("llama", params), DEVICES) < 0.3
