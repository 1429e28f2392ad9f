"""What a class computes of arrays that are shorter than its inputs, and how its matrices begin."""

import importlib.util
from pathlib import Path

import jax
import numpy as np
import pytest
from flax import nnx

from redco_new.own.call import Call
from redco_new.own.find import find_reference
from redco_new.render.execute import load_text
from redco_new.request.own_class import Input

FILE = Path(__file__).with_name("nets_sets.py")


def printed(name, arguments, **inputs):
    from redco_new.pytorch.make import print_class

    reference = find_reference("--model", f"{FILE.name}:{name}", FILE.parent)
    return print_class(reference, "--config", arguments, Call(inputs))


@pytest.fixture(scope="module")
def made():
    sizes = {"bands": 20, "width": 16, "inside": 40}
    return printed("Sounds", sizes, X=Input((20, 31)), lengths=Input((), "int32"))


def test_a_dim_of_what_was_computed_is_read_of_its_shape_and_inputs_keep_their_letters(made):
    assert max(made.gate.outputs, made.gate.gradients) < 1e-5
    assert "def __call__(self, X: jax.Array, lengths: jax.Array):" in made.source
    assert "D = x.shape[2]\n" in made.source and "jnp.arange(D)" in made.source
    assert "jnp.linspace(0, 1, config.width)" in made.source


def test_a_matrix_that_is_no_layers_begins_as_wide_as_in_pytorch(made):
    spec = importlib.util.spec_from_file_location("nets_sets", FILE)
    nets = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(nets)
    loaded = load_text("printed/model.py", made.source)
    model = loaded.Sounds(loaded.SoundsConfig(), rngs=nnx.Rngs(0))
    theirs = dict(nets.Sounds().named_parameters())
    for path, x in nnx.to_flat_state(nnx.state(model, nnx.Param)):
        name = ".".join(path).replace("kernel", "weight")
        bound = float(np.abs(jax.device_get(x[...])).max())
        assert bound == pytest.approx(float(theirs[name].detach().abs().max()), rel=0.2), name


def test_layers_that_are_scaled_by_how_many_they_are_are_as_many_as_in_the_class():
    made = printed("Scaled", {"width": 16, "layers": 2}, x=Input((16,)))
    assert [field.name for field in made.fields] == ["width", "dtype", "remat"]
    assert "splits=2" in made.source and "* 1.4142135623" in made.source
