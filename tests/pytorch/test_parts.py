"""Parts of a class of PyTorch: what they are made with, and which sizes they are told."""

import math
from pathlib import Path

import pytest

from redco_new.own.call import Call
from redco_new.own.find import find_reference
from redco_new.request.own_class import Input


@pytest.fixture(scope="module")
def made():
    from redco_new.pytorch.make import print_class

    reference = find_reference("--model", "nets_parts.py:Parts", Path(__file__).parent)
    return print_class(reference, "--config", {}, Call({"ids": Input((12,), "int32")}))


def test_an_argument_left_out_is_what_the_part_keeps_by_that_name(made):
    assert made.source.count("class Inner") == 1
    assert "self.first = Inner(config, config.inner, " in made.source
    assert "self.second = Inner(config, 3 * config.width, " in made.source


def test_a_part_that_is_given_no_array_is_told_the_sizes_of_the_input(made):
    assert "B, S = ids.shape\n" in made.source and "self.places(B, S)\n" in made.source
    assert (
        "def __call__(self, B, S):\n" in made.source and "def __call__(self, x):\n" in made.source
    )


def test_a_convolution_by_weights_that_no_layer_applies_is_one_of_jax(made):
    assert "jax.lax.conv_general_dilated(" in made.source
    assert "feature_group_count=" in made.source and "mixed[..., :S]" in made.source


def test_layers_that_differ_by_their_place_are_made_apart(made):
    assert "Deep(config.width, 0, " in made.source and "Deep(config.width, 1, " in made.source
    assert "for layer in self.layers:" in made.source
    assert (
        "self.rate = (0.20000000000000007, 0.3555" in made.source and ")[layer_idx]" in made.source
    )


def test_a_tensor_of_one_number_is_that_number(made):
    assert "jnp.maximum(x + self.fc(x) * self.rate, least)" in made.source
    assert "jnp.broadcast_to(jnp.asarray(0.25, self.dtype), (B, D))" in made.source
    assert "least = jnp.full((), -0.5, self.dtype)\n" in made.source


def test_a_part_that_is_called_by_two_programs_is_there_twice(made):
    assert "self.turn = Turn(config.width, " in made.source
    assert "self.turn_2 = Turn2(config.width, " in made.source
    assert "self.turn(self.second(x)) + self.turn_2(x)[:, -1:]" in made.source  # a list of one


def test_channels_are_dropped_whole_and_parameters_are_in_lists():
    from redco_new.pytorch.make import print_class

    reference = find_reference("--model", "nets_parts.py:Channels", Path(__file__).parent)
    made = print_class(reference, "--config", {}, Call({"x": Input((3, 8, 8))}))
    assert "self.dropout(jnp.ones((B, self.config.width, 1, 1), " in made.source and made.modes
    assert "self.scales[1][...]" in made.source and "self.named.shift[...]" in made.source
    assert made.parameters["scales/1"].name == "scales.1"
    assert max(made.gate.outputs, made.gate.gradients) < 1e-5


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((-9.21 / 15, -9.21 / 11, -9.21 / 23), "-9.21 / (width // 2 - 1)"),  # waves of positions
        ((0.25, 0.5, 2**-0.5), "2 ** (-8 / heads)"),  # slopes of heads
        ((math.log(16), math.log(6), math.log(6)), "math.log(width / (heads // 2))"),  # of buckets
        ((-127, -63, -23), "1 - words"),
        ((2.0**300, 1.0, 2.0), None),  # and nothing that no float has
        ((72, 64, 128), "2 * (heads + width)"),
        ((8**0.5, 3**0.5, 3**0.5), "(width / heads) ** 0.5"),
        ((63, 31, 11), "words // 2 - 1"),  # the last bucket
        ((4, 2, 1), "max(1, words // width)"),  # of groups, one at the least
        ((12, 19, 76), "int(heads * share)"),  # of a width within
        ((51, 38, 76), "int(16 * share)"),
        ((96, 72, 144), "3 * width"),  # and no float, whatever times that it is
    ],
)
def test_a_number_of_positions_is_said_by_sizes(values, text):
    from redco_new.pytorch.sizes import Atom, Number, express

    sizes = {"heads": (4, 8, 16), "width": (32, 24, 48), "words": (128, 64, 24)}
    scope = [Atom("share", (3.2, 2.4, 4.8)), *(Atom(name, x) for name, x in sizes.items())]
    assert express(Number(values), scope) == text


def test_a_dim_that_is_another_one_each_time_has_a_letter_of_its_own():
    from redco_new.pytorch.dims import input_dims
    from redco_new.pytorch.setting import Setting

    def setting(sources, targets, batch):
        inputs = {"ids": sources, "target_ids": targets, "mask": sources}
        return Setting({}, {name: Input((n,), "int32") for name, n in inputs.items()}, batch)

    assert input_dims([setting(12, 3, 2), setting(14, 5, 3)]) == [
        {"B": 2, "S": 12, "T": 3},
        {"B": 3, "S": 14, "T": 5},
    ]


@pytest.fixture(scope="module")
def graphs():
    from redco_new.pytorch.make import print_class

    reference = find_reference("--model", "nets_parts.py:Graphs", Path(__file__).parent)
    inputs = {"nodes": Input((8, 3), "int32", 40), "edges": Input((2, 12), "int32", 8)}
    return print_class(reference, "--config", {}, Call(inputs))


def test_numbers_of_an_object_are_fields(graphs):
    fields = {field.name: field.argument for field in graphs.fields}
    assert fields == {name: f"config.{name}" for name in ("width", "words", "rate")} | {"dtype": ""}
    assert "int(config.width * config.rate)" in graphs.source


def test_what_no_rule_prints_is_what_pytorch_makes_it_of(graphs):
    assert "huber" not in graphs.source and "cosine" not in graphs.source
    assert "add_along(" in graphs.source and ".add(" in graphs.source


def test_parts_by_whose_numbers_no_size_says_are_apart(graphs):
    assert "class Padded(" in graphs.source and "class Padded2(" in graphs.source
    assert '"act"' not in graphs.source
