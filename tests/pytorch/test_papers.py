"""Classes as papers of other kinds of layers have them are printed, or refused in words that say what to do."""

from pathlib import Path

import pytest

from redco_new.errors import RedcoError
from redco_new.own.call import Call
from redco_new.own.find import find_reference
from redco_new.request.own_class import Input


def printed(name, arguments=None, **inputs):
    from redco_new.pytorch.make import print_class

    reference = find_reference("--model", f"nets_papers.py:{name}", Path(__file__).parent)
    return print_class(reference, "--config", arguments or {}, Call(inputs))


def test_complex_numbers_in_layers_a_list_of_dicts_and_what_parameters_begin_as(capsys):
    made = printed("Layered", ids=Input((12,), "int32"))
    assert max(made.gate.outputs, made.gate.gradients) < 1e-5 and not capsys.readouterr().out
    assert "@over_layers(self.config.remat)" in made.source
    assert "self.mix(self.norm(x), turns)" in made.source
    assert made.parameters["layers/mix/q/kernel"].name == "layers.{}.mix.q.weight"
    assert "xq = self.q(x)" in made.source and "xk = self.k(x)" in made.source
    assert "jnp.asarray([0.5, 0.25, 2.0], jnp.float32)" in made.source
    assert "nnx.Param(jnp.log(" in made.source and "jnp.pad(x[:, :-1], " in made.source
    assert "Dropout" not in made.source
    assert any("begins with seed drawn" in note for note in made.notes)


def test_what_is_drawn_is_its_mean_in_evaluation_so_that_a_label_is_dropped_in_training_alone():
    import jax.numpy as jnp
    from flax import nnx

    from redco_runtime.nn.noise import Noise

    made = printed("Drops", label=Input((), "int32"))
    assert "self.noise((B,), jnp.float32) < self.rate" in made.source
    noise = Noise("uniform", rngs=nnx.Rngs(0))
    noise.eval()
    assert (noise((3,)) == jnp.full((3,), 0.5)).all()
    assert "nnx.Variable(jnp.zeros" not in made.source
    assert any("places of Drops is not trained, and is random" in note for note in made.notes)


@pytest.mark.parametrize(
    ("name", "inputs", "words"),
    [
        ("Spectral", ("x",), "spectral_norm changes vectors of fc in each step"),
        ("Packs", ("x", "lengths"), r"nets_papers.py:\d+: pack_padded_sequence packs by values"),
        ("Numpy", ("x",), r"nets_papers.py:\d+: it computes with NumPy"),
    ],
)
def test_what_is_not_printed_is_said_in_words_of_the_class(name, inputs, words):
    of = {"x": Input((5, 8)), "lengths": Input((), "int32")}
    with pytest.raises(RedcoError, match=words):
        printed(name, **{x: of[x] for x in inputs})


def test_a_constructor_that_wants_an_object_or_a_file_says_how_to_give_it():
    with pytest.raises(RedcoError, match="make the object by --example FILE:FUNCTION"):
        printed("Reads", {"args": {"width": 8}}, x=Input((8,)))
    with pytest.raises(RedcoError, match="give a path that is there from where you are"):
        printed("Reads", {"args": "no/such.txt"}, x=Input((8,)))


def test_a_number_that_other_sizes_do_not_bear_out_is_a_field():
    made = printed("Capped", {"width": 64}, x=Input((64,)))
    assert "self.up = Linear(config.width, config.up_out_features, " in made.source


def test_a_class_that_computes_something_else_with_other_sizes_says_so():
    made = printed("Cut", {"width": 64}, x=Input((64,)))
    assert made.notes == (
        "Cut computes something else with other sizes: model.py is right for its own; print it anew for others",
    )
