"""Which line an error names, and a collective: that of the class, wherever the class is."""

import sys

import pytest

from generated import find_own, texts
from redco_new.errors import RedcoError
from redco_new.own.find import find_reference
from redco_new.request import Request
from redco_new.request.own_class import Input, OwnClass
from redco_plan import predict_collectives

LAYER = """
from flax import nnx
import jax.numpy as jnp

class Layer(nnx.Module):
    def __init__(self, width, wrong=False, *, rngs):
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)
        self.wrong = wrong

    def __call__(self, x):
        h = nnx.relu(self.up(x))
        return self.down(h[:, 1:] if self.wrong else h)
"""
NET = """
from zoo_of_layers import Layer

class Net(Layer):
    def __call__(self, x):
        return super().__call__(x)
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A folder of the user's, beside one where a package is installed that has a layer."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "zoo_of_layers.py").write_text(LAYER)
    monkeypatch.syspath_prepend(str(packages))
    (tmp_path / "net.py").write_text(NET)
    yield tmp_path
    sys.modules.pop("zoo_of_layers", None)


@pytest.mark.parametrize(
    ("model", "lines"),
    [
        (
            "zoo_of_layers:Layer",
            ["site-packages/zoo_of_layers.py:13 in __call__: `return self.down("],
        ),
        (
            "net.py:Net",
            ["zoo_of_layers.py:13 in __call__", ", from", "net.py:6 in __call__: `return super()"],
        ),
    ],
)
def test_an_error_names_the_line_of_the_class(installed, model, lines):
    told = OwnClass({"width": 8, "wrong": True}, {"x": Input((8,))})
    with pytest.raises(RedcoError) as caught:
        find_own(model, "regress", told, "my-project", installed)
    message = str(caught.value)
    assert [message.index(line) for line in lines] == sorted(message.index(line) for line in lines)
    assert "/flax/" not in message


def test_a_collective_names_the_line_of_the_class(installed, monkeypatch):
    monkeypatch.chdir(installed)
    (installed / "net.toml").write_text('[model]\nwidth = 64\n[inputs]\nx = {shape = ["B", 64]}\n')
    request = Request.from_flags(
        "lines", "zoo_of_layers:Layer", config="net.toml", recipe="regress", shards="4"
    )
    _, _, plan = texts(request)
    sources = {source for x in predict_collectives(plan) for source in x.sources}
    assert "zoo_of_layers.py:13 (Layer.__call__)" in sources
    assert not any(source.startswith(("model.py", "linear.py")) for source in sources)


def test_a_module_that_is_missing(tmp_path):
    (tmp_path / "net.py").write_text("import flax.absent\n")
    with pytest.raises(RedcoError, match="or install the version of it that has that"):
        find_reference("--model", "net.py:Net", tmp_path)
    (tmp_path / "net.py").write_text("def net():\n    import absent\n")
    told = OwnClass(example="net.py:net")
    with pytest.raises(RedcoError, match="`import absent`: .*; pip install absent where redco-new"):
        find_own("net.py:net", "regress", told, "my-project", tmp_path)
