"""What published classes do that no layer says: a width rounded up, gradients that stop, weights that are normed."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from types import SimpleNamespace

import pytest

from redco_new.errors import RedcoError
from redco_new.own.call import Call
from redco_new.own.find import find_reference
from redco_new.request.own_class import Input
from redco_runtime.nn.places import largest, smallest

HERE = Path(__file__).parent


def printed(name, arguments=None, **inputs):
    from redco_new.pytorch.make import print_class

    reference = find_reference("--model", f"nets_own.py:{name}", HERE)
    return print_class(reference, "", arguments or {}, Call(inputs))


def test_numbers_of_dicts_are_fields_of_the_one_config():
    arguments = {"cfg": {"width": 32, "ffn": {"width": 80, "class": 3}}, "head": {"width": 48}}
    made = printed("Configured", arguments, x=Input((12,)))
    values = {f.name: (f.value, f.argument) for f in made.fields if f.argument}
    assert values.pop("width") == (32, "cfg.width")
    assert values == {"head_width": (48, "head.width"), "ffn_width": (80, "cfg.ffn.width")}
    assert "self.within = Within(config.width, config, " in made.source
    assert "self.up = Linear(width, cfg.ffn_width, " in made.source
    assert "self.head = Linear(config.width, config.head_width, " in made.source


def test_a_config_json_has_the_fields_of_configs_within_it():
    from redco_new.pytorch.printed import Field
    from redco_new.pytorch.table import _config_keys

    fields = [Field("width", "width", "int", 8, 8), Field("ffn_width", "ffn.width", "int", 9, 9)]
    keys = _config_keys(fields, {"width": 8, "ffn": {"width": 9, "act": "silu"}})
    assert keys == {"width": "config.width", "ffn": 'CONFIG["ffn"] | {"width": config.ffn_width}'}


def test_a_config_json_has_the_rates_that_a_recipe_trains_without():
    from redco_new.pytorch.printed import Field
    from redco_new.pytorch.table import _config_keys

    names = {"attention_dropout": 0.1, "text.drop": 0.2, "mlp_dropout": 0.0}
    fields = [Field(x.rpartition(".")[2], x, "float", rate, rate) for x, rate in names.items()]
    keys = _config_keys(fields, names | {"text": {"drop": 0.2}})
    values = [
        eval(x, {"config": fields_of_0(fields), "CONFIG": {"text": {}}}) for x in keys.values()
    ]
    assert values == [0.1, 0.0, {"drop": 0.2}]


def fields_of_0(fields):
    """A config whose rates are 0, as `dpo` has it."""
    return SimpleNamespace(**dict.fromkeys((x.name for x in fields), 0.0))


def test_a_number_that_follows_from_no_size_is_a_field():
    made = printed("Rounded", x=Input((24,)))
    values = {f.name: (f.value, f.argument) for f in made.fields}
    assert values["up_out_features"] == (64, "") and values["shared"] == (2, "shared")
    assert "self.up = Linear(config.width, config.up_out_features, " in made.source
    assert "self.down = Linear(config.up_out_features, config.width, " in made.source
    assert [note for note in made.notes if "makes up_out_features of its other arguments" in note]
    assert "/ self.width**0.5" in made.source  # and not of the two that it is made of


def test_gradients_stop_where_their_author_says_so():
    made = printed("Codes", points=Input((5, 12)))
    assert "q = z + jax.lax.stop_gradient(q - z)\n" in made.source
    assert "target = jax.lax.stop_gradient(linear * q)\n" in made.source
    # What is said of the former q is computed before there is another.
    assert made.source.index("commit = ") < made.source.index("q = z + ")
    # What the author calls as a function of the runtime has another name.
    assert "largest_ = largest(self.up(points), axis=1)[0]" in made.source


@pytest.mark.slow  # traced and compared, three layers deep
def test_layers_whose_weights_are_normed_are_of_one_class():
    made = printed("Layers", x=Input((6, 16)))
    assert "rhs_dilation=(self.dilation,)" in made.source
    assert "Dilated2(config.width, 2, " in made.source
    assert [f.name for f in made.fields] == ["width", "heads", "dtype"]
    assert "vector_norm(self.original1[...], ord=2, axis=(1, 2), keepdims=True)" in made.source


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("Waves", {"x": Input((30,))}, "^Waves: its parameter weights is complex; "),
        (
            "Neighbours",
            {"x": Input((4, 8)), "edges": Input((6,), "int32")},
            r"^--config: \[inputs\]: edges: .*out of bounds.*; say how many ids there are: below",
        ),
    ],
)
def test_what_a_class_cannot_be_given_is_said(name, inputs, message):
    with pytest.raises(RedcoError, match=message):
        printed(name, **inputs)


def test_of_equal_values_the_first_alone_has_the_gradient():
    x = jnp.asarray([[1.0, 3.0, 3.0], [2.0, 0.0, 0.0]])
    for function, there in (
        (largest, [[0, 1, 0], [1, 0, 0]]),
        (smallest, [[1, 0, 0], [0, 1, 0]]),
    ):
        values, places = function(x, axis=1)
        np.testing.assert_array_equal(values, x[jnp.arange(2), places])
        grads = jax.grad(lambda x, function=function: function(x, axis=1)[0].sum())(x)
        np.testing.assert_array_equal(grads, there)
        assert function(x, axis=1, keepdims=True)[0].shape == (2, 1)
