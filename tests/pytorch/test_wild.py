"""Classes as repositories of papers have them are printed, and read as they are there."""

from pathlib import Path

import pytest

from redco_new.errors import RedcoError
from redco_new.own.call import Call
from redco_new.own.find import find_reference
from redco_new.request.own_class import Input


def printed(name, arguments=None, **inputs):
    from redco_new.pytorch.make import print_class

    reference = find_reference("--model", f"nets_wild.py:{name}", Path(__file__).parent)
    return print_class(reference, "--config", arguments or {}, Call(inputs))


def test_a_codebook_what_is_changed_in_place_and_keys_in_another_order():
    made = printed("VQVAE", x=Input((3, 8, 8)))
    assert max(made.gate.outputs, made.gate.gradients) < 1e-5
    assert "embedding_init=between(1.0 / rows)" in made.source and "broadcast" not in made.source
    assert "quantized - jax.lax.stop_gradient(x)" in made.source
    assert "return relu + self.block.layers[2](block)" in made.source
    assert "loss, quantized = self.codebook(" in made.source
    assert 'return {"recon": self.decoder(quantized), "loss": loss}' in made.source


def test_arguments_of_a_new_of_its_own_a_row_of_padding_and_names():
    made = printed("Padded", ids=Input((12,), "int32"))
    assert "def __init__(self, features, out, dtype, *, rngs" in made.source
    assert "embedding_init=nnx.initializers.normal(1.0)" in made.source  # of all other rows
    assert "halves = jnp.split(self.gate(x), 2, axis=-1)" in made.source
    assert "y = halves[0] * halves[1] + halves[1]" in made.source
    assert "jax.nn.silu(self.gate(y))" in made.source


def test_a_list_of_lists_is_a_list_of_layers_whose_number_is_a_field_whatever_its_part_is_given():
    made = printed("Perceiver", data=Input((12, 16)))
    assert max(made.gate.outputs, made.gate.gradients) < 1e-5
    assert [f.name for f in made.fields if f.name in ("depth", "remat")] == ["depth", "remat"]
    assert "def __init__(self, config: PerceiverConfig, width, dtype, *, rngs" in made.source
    assert "nnx.split_rngs(splits=config.depth)" in made.source
    assert "@over_layers(self.config.remat)" in made.source
    assert "x = self.norm(self.attend(x, data)) + x" in made.source
    stored = made.parameters["crossed/layers/attend/to_q/kernel"]
    assert stored.name == "crossed.layers.{}.0.to_q.weight"


def test_a_tensor_that_is_no_buffer_is_refused_and_bags_are_read_by_ids_that_they_have():
    with pytest.raises(RedcoError, match=r"nets_wild.py:\d+: it reads a tensor that is no buffer"):
        printed("Waves", x=Input((3,)))
    assert printed("Bags", ids=Input((6,), "int32")).gate.gradients < 1e-5


def test_a_key_that_a_table_of_model_lacks_is_to_be_given_there():
    with pytest.raises(RedcoError, match=r"KeyError: 'classes'; give it in \[model\]"):
        printed("Table", {"cfg": {"width": 16}}, x=Input((16,)))
