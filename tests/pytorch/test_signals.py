"""What classes of sounds do beside layers: windows, transforms, filters that are never called."""

from pathlib import Path

import pytest

from redco_new.errors import RedcoError
from redco_new.own.call import Call
from redco_new.own.find import find_reference
from redco_new.request.own_class import Input

HERE = Path(__file__).parent


def printed(name, arguments=None, **inputs):
    from redco_new.pytorch.make import print_class

    reference = find_reference("--model", f"nets_signals.py:{name}", HERE)
    return print_class(reference, "--config", arguments or {}, Call(inputs))


def test_windows_transforms_and_a_filter_that_is_never_called_are_printed():
    made = printed("Signals", sound=Input((136,)))
    source = made.source
    assert "self.window = nnx.Variable(jnp.hanning(17)[:-1])" in source
    assert "jnp.arange(0, S - 16 + 1, 8)[:, None] + jnp.arange(16)" in source
    assert '"decay": nnx.Variable(jnp.linspace(0.1, 1.0, 64)[:, None])' in source
    assert '"rates": nnx.Param(jnp.linspace(1.5, 15.0, config.width))' in source
    assert "nnx.initializers.normal((2 * config.width) ** (-0.5))" in source
    # A dataclass is a dict of what it has; what the constructor copies to a bias is said.
    assert '"logits": self.head(' in source and '"loudness": ' in source
    assert [note for note in made.notes if "begins with head.bias drawn" in note]


def test_functions_that_hold_parts_are_compared_in_bfloat16():
    made = printed("Patches", image=Input((12, 12)))
    assert made.gate.rounded and "self.dtype" in made.source
    assert made.source.count("jnp.moveaxis(") == 2


def test_a_layer_without_a_rule_is_named_by_the_line_of_the_class():
    with pytest.raises(RedcoError, match="adaptive_avg_pool2d") as caught:
        printed("Uneven", image=Input((8, 8)))
    lines = (HERE / "nets_signals.py").read_text().splitlines()
    (number,) = (i for i, line in enumerate(lines, 1) if "self.net(image[:, None])" in line)
    assert caught.value.where == f"nets_signals.py:{number}"


def test_norms_of_weights_begin_as_those():
    made = printed("Normed", x=Input((12, 5)))
    assert not [note for note in made.notes if "drawn" in note]
    source = made.source
    norm = "jnp.linalg.vector_norm(self.directions[...], ord=2, axis=0)"
    assert f"self.sizes = nnx.Param({norm})" in source
    assert source.index("self.original1 = ") < source.index("self.original0 = ")
    assert "vector_norm(self.original1[...], ord=2, axis=1, keepdims=True)" in source
    assert "broadcast_to" not in source  # of F.normalize, whose quotient does that by itself


def test_what_draws_an_array_that_is_gone_draws_no_other():
    """Another one may have its memory."""
    import torch
    from torch import nn

    from redco_new.pytorch.construct import construct

    class Tables(nn.Module):
        def __init__(self):
            super().__init__()
            self.waves = nn.ParameterList()
            for _ in range(9):
                torch.randn(8)
                self.waves.append(nn.Parameter(torch.arange(8.0).cos()))

    assert construct(Tables).draws == {}


def test_borders_are_padded_as_the_class_has_them_and_its_device_is_that_of_its_inputs():
    """And parts that are given in a list have the config, of which fields are what is read."""
    arguments = find_reference("--example", "nets_signals.py:Forecast", HERE).value()
    made = printed("Series", {"settings": arguments}, x=Input((20, 3)))
    assert [field.name for field in made.fields] == ["channels", "width", "rate"]
    assert (
        'PaddedConv(\n            config.channels, config.width, (3,), padding=1, mode="wrap"'
        in (made.source)
    )
    assert 'mode="edge", padding="SAME"' in made.source
    assert "Step(config" in made.source and "cuda" not in made.source
