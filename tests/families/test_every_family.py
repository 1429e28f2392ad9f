"""What is said of each family holds: its sizes, what its class provides, its exports."""

import fnmatch
import inspect
from operator import attrgetter
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers
from flax import nnx
from families.counts import count
from families.parity import emitted, saved
from families.reference import reference, references
from families.training import make_rule
from redco_runtime.checkpoints.export import export
from redco_runtime.checkpoints.load import load
from redco_runtime.base.state import ModelState, flatten

from redco_new.models.families import FAMILIES
from redco_new.models.find import find_model
from redco_new.models.recipes import RECIPES


@pytest.mark.parametrize("family", FAMILIES)
def test_has_a_reference(family):
    reference(family)


def test_each_reference_is_of_a_family():
    assert references().keys() <= FAMILIES.keys()


@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_have_the_parameters_of_their_checkpoints(family):
    parameters = reference(family).parameters
    assert parameters, f"say how many parameters some size of {family} has, in its Reference"
    assert {size: count(family, size) for size in parameters} == parameters


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_a_parameter_is_one_of_the_pytorch_class(family):
    pair = reference(family).pair(family)
    table = pair.weights.tensors(pair.config())
    ours = flatten(nnx.to_pure_dict(nnx.state(pair.ours, nnx.Param)))
    stored = saved(pair.torch)  # some names of named_parameters() are others in files
    buffers = {name for name, _ in pair.torch.named_buffers()} & stored.keys()
    assert names_of(ours, table, stored) == stored.keys() - buffers
    assert names_of(table.keys() - ours.keys(), table, stored) == buffers


@pytest.mark.parametrize("family", FAMILIES)
def test_what_decays_is_what_trainer_decays(family):
    """A parameter is followed by its first number. Of ViT two differ, as docs/how-to/coming-from.md says."""
    pair = reference(family).pair(family)
    params = {name: x for name, x in pair.params.items() if name != "logits_bias"}
    rule = make_rule(pair.model.family, {})
    ours = flatten(rule.transform.__globals__["matrices"](params))
    of_theirs = set(transformers.Trainer.get_decay_parameter_names(None, pair.torch))
    theirs = {k: x.detach().numpy() for k, x in pair.torch.named_parameters()}
    for path, value in flatten(params).items():
        (name,) = (k for k, x in theirs.items() if value.ravel()[0] in x)
        other = family == "vit" and path in ("cls", "positions")
        assert ours[path] == (name in of_theirs and not other), path


def names_of(paths, table, stored):
    """Return the names in a checkpoint of what our parameters are made of."""
    patterns = [table[path].name.replace("{}", "[0-9]*") for path in paths]
    return {name for pattern in patterns for name in fnmatch.filter(stored, pattern)}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_class_has_the_methods_that_its_family_provides(family):
    model = find_model(family, "", 1)
    kind = getattr(emitted(model)[0], model.family.model_class)
    for signature in sorted(model.family.provides):
        name = signature.partition("(")[0]
        parameters = inspect.signature(getattr(kind, name)).parameters.values()
        needed = [x.name for x in parameters if x.default is x.empty and x.name != "self"]
        assert signature == f"{name}({', '.join(needed)})"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_recipes_of_a_family_need_what_it_provides(family):
    for recipe in FAMILIES[family].recipes:
        assert RECIPES[recipe].needs <= FAMILIES[family].provides, recipe


@pytest.mark.parametrize("family", FAMILIES)
def test_an_export_is_what_transformers_wrote_and_is_read_again(family, tmp_path):
    pair = reference(family).pair(family)
    export(
        jax.tree.map(jnp.asarray, pair.params),
        tmp_path / "out",
        pair.weights.hf_config(pair.config()) | {"dtype": "float32"},
        table=pair.weights.tensors(pair.config()),
    )
    kind = getattr(transformers, pair.model.family.architecture)
    again, report = kind.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    expected = pair.torch.state_dict()
    assert again.state_dict().keys() == expected.keys()
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
    params, initial = loaded(pair, tmp_path / "out")
    assert not initial
    jax.tree.map(np.testing.assert_array_equal, params, pair.params)


def loaded(pair, folder):
    """Return what `train --init folder` starts from, on one device, and what keeps its initial value."""
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    like = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, "float32", sharding=place), pair.params
    )
    state = SimpleNamespace(model=ModelState(like, {}))
    steps = SimpleNamespace(
        state=state, shapes=flatten(like), start=attrgetter("params"), classes=None
    )
    config = SimpleNamespace(model=pair.config(), train=SimpleNamespace(seed=0))
    return load(str(folder), steps, config, pair.weights)


@pytest.mark.parametrize("family", FAMILIES)
def test_config_has_nothing_that_hf_config_works_out(family):
    """Of a window alone, which the default size of some families has, both speak."""
    model = find_model(family, "", 1)
    module, weights = emitted(model)
    config = getattr(module, model.family.config_class)()
    CONFIG, weights.CONFIG = weights.CONFIG, {}
    assert CONFIG.keys() & weights.hf_config(config).keys() <= {"sliding_window"}
