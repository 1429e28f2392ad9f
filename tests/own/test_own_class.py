"""What is said of an own class, in flags, a file of --config and redco.toml."""

import re
from pathlib import Path

import pytest

from redco_new.errors import RedcoError
from redco_new.request.own_class import Input
from redco_new.request import Request

GOOD = """
output = "logits"

[model]
width = 16
sizes = [1, 2]
rate = 1e-05
name = "a \\"quoted\\" text"
options = {deep = true, names = ["x", "y"]}

[inputs]
x = {shape = ["B", 12]}
ids = {shape = ["B", 6], dtype = "int32", below = 40}
"""


def refused(match):
    return pytest.raises(RedcoError, match=re.escape(match))


def asked(tmp_path, text, model="nets.py:Net", **flags):
    path = tmp_path / "net.toml"
    path.write_text(text)
    return Request.from_flags("my-project", model, config=str(path), recipe="classify", **flags)


def test_the_file_of_config(tmp_path):
    own = asked(tmp_path, GOOD).own
    assert own.arguments["sizes"] == (1, 2)
    assert own.inputs == {"x": Input((12,)), "ids": Input((6,), "int32", 40)}
    assert own.output == "logits"


def test_toml_gives_the_request_back(tmp_path):
    request = asked(tmp_path, GOOD)
    assert Request.from_toml(request.to_toml()) == request
    assert "dtype" not in request.to_dict()  # its own code says


def test_the_preset_tiny(tmp_path):
    text = "[model]\nwidth = 512\n[model.tiny]\nwidth = 16\n"
    request = asked(tmp_path, text)
    assert (request.own.arguments, request.own.tiny) == ({"width": 512}, {"width": 16})
    assert Request.from_toml(request.to_toml()) == request
    assert asked(tmp_path, "[model]\ntiny = true\n").own.arguments == {"tiny": True}
    with refused("[model.tiny] width: inf is not a number"):
        asked(tmp_path, "[model.tiny]\nwidth = inf\n")


def test_paths_are_relative_to_the_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    request = asked(tmp_path, "", "src/nets.py:Net", folder=Path("made/my-project"))
    assert request.model == "../../src/nets.py:Net"
    example = Request.from_flags("a", "p.nets:Net", example="e.py:f", folder=Path("a"))
    assert (example.model, example.own.example) == ("p.nets:Net", "../e.py:f")


@pytest.mark.parametrize(
    "model",
    ["nets.py:", ":Net", "nets.py:Net()", "nets.py:a:b", "my-nets.py:Net", "a..b:Net", "n.py:class"]
    + ["nets.py:Net\n", 'x";import os;".py:Net', "nets.py:N-t"],
)
def test_a_model_that_cannot_be_imported(model):
    with refused("--model: "):
        Request.from_flags("a", model)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[modle]", "unknown key 'modle'; the keys are model, inputs, output"),
        ("model = 3", "model: 3 is not a table; write [model]"),
        ("[model]\nclass = 3", "[model]: 'class' is what --model says"),
        ("[model]\nwhen = 2020-01-01", "[model] when: 2020-01-01 is not a number, a text"),
        ("[model]\nrate = inf", "[model] rate: inf is not a number"),
        ("[inputs]\nx = {shape = 3}", "[inputs] x: the shape 3 does not begin with 'B'"),
        ("[inputs]\nx = {shape = [8, 3]}", "[inputs] x: the shape [8, 3] does not begin with 'B'"),
        (
            '[inputs]\nx = {shape = ["B", 0, "S", 3], dtype = "int32"}',
            "[inputs] x: the shape ['B', 0, 'S', 3] has 0, 'S', which is no size; give whole numbers "
            'of 1 or more: {shape = ["B", 128, 128, 3], dtype = "int32"}',
        ),
        ('[inputs]\nx = {shape = ["B"], dtype = "f"}', "[inputs] x: unknown dtype 'f'"),
        ('[inputs]\nx = {shape = ["B"], below = 0}', "[inputs] x: below = 0 is no number of ids"),
        ("method = 3", "method: 3 is no name of a method"),
        ("output = 1.5", "output: 1.5 is no key or index"),
        ("model = ", "not TOML: "),
    ],
)
def test_bad_files(tmp_path, text, message):
    with refused(f"--config {tmp_path}/net.toml") as caught:
        asked(tmp_path, text)
    assert message in str(caught.value)


def test_flags_that_do_not_go_together(tmp_path):
    with refused("--config: gpt-j is no class of your own"):
        Request.from_flags("a", "gpt-j", config="net.toml")
    with refused("--example: 'f' is not FILE.py:NAME"):
        Request.from_flags("a", "nets.py:Net", example="f")
    with refused("[model] and a function e.py:f both say what it is"):
        asked(tmp_path, GOOD, example="e.py:f")
    with refused("--dtype: nets.py:Net computes in what its own code says"):
        asked(tmp_path, GOOD, dtype="float32")
    with refused("cannot be read: No such file or directory"):
        Request.from_flags("a", "nets.py:Net", config=str(tmp_path / "none.toml"))


def test_a_redco_toml_without_its_class():
    with refused("redco.toml: [model] has no class; add class = "):
        Request.from_toml('name = "a"\n[model]\nwidth = 3\n')
