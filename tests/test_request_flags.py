"""Flags on top of what a project asks for already."""

import re

import pytest

from redco_new.errors import RedcoError
from redco_new.request import Request


def refused(match):
    return pytest.raises(RedcoError, match=re.escape(match))


ASKED = Request.from_flags(
    "a",
    "gpt-j",
    mesh="data=2,fsdp=2,model=4",
    size="6b",
    recipe="lm",
    dtype="float32",
    zero=1,
    sequence_parallel=True,
)
NO_FLAGS = dict.fromkeys(
    ("model", "shards", "mesh", "config", "example", "size", "recipe", "dtype", "zero")
)


def changed(request, **flags):
    """What the flags change: field -> value."""
    new = request.with_flags(**{**NO_FLAGS, "sequence_parallel": None, **flags})
    fields = (
        "name",
        "model",
        "mesh",
        "size",
        "recipe",
        "dtype",
        "products",
        "zero",
        "sequence_parallel",
        "features",
        "own",
    )
    return {f: getattr(new, f) for f in fields if getattr(new, f) != getattr(request, f)}


@pytest.mark.parametrize(
    ("flags", "changes"),
    [
        ({}, {}),
        ({"shards": "4"}, {}),
        ({"shards": "8"}, {"mesh": {"data": 2, "fsdp": 2, "expert": 1, "model": 8}}),
        ({"mesh": "model=8"}, {"mesh": {"data": -1, "fsdp": 1, "expert": 1, "model": 8}}),
        (
            {"mesh": "fsdp=4", "shards": "8"},
            {"mesh": {"data": -1, "fsdp": 4, "expert": 1, "model": 8}},
        ),
        ({"size": "1b"}, {"size": "1b"}),
        ({"recipe": "mlm"}, {"recipe": "mlm"}),
        ({"dtype": "bfloat16"}, {"dtype": "bfloat16"}),
        ({"products": "int8"}, {"products": "int8"}),
        ({"zero": 0}, {"zero": 0}),
        ({"sequence_parallel": False}, {"sequence_parallel": False}),
        ({"model": "gpt-j"}, {}),
        ({"model": "t5"}, {"model": "t5", "size": "", "recipe": ""}),
        (
            {"model": "t5", "size": "base", "dtype": "float32"},
            {"model": "t5", "size": "base", "recipe": ""},
        ),
    ],
)
def test_flags_on_top_of_a_request(flags, changes):
    assert changed(ASKED, **flags) == changes


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"shards": ""}, "--shards: '' is not a number of shards"),
        ({"shards": "0"}, "--shards: '0' is not a number of shards"),
        ({"mesh": ""}, "--mesh: '' is not AXIS=SIZE"),
        ({"mesh": "model=2", "shards": "4"}, "--shards: 4 contradicts model=2 of --mesh"),
        ({"dtype": "int8"}, "--dtype: unknown dtype 'int8'"),
        ({"zero": 3}, "--zero: 3 is not a stage of ZeRO"),
        ({"model": ""}, "--model: '' is not a name"),
        ({"config": "x.toml"}, "--config: gpt-j is no class of your own"),
        ({"example": "x.py:f"}, "--example: gpt-j is no class of your own"),
    ],
)
def test_bad_flags_on_top_of_a_request(flags, message):
    with refused(message):
        ASKED.with_flags(**flags)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A project's request for a class of its user's, in `work`; the project would be in work/a."""
    monkeypatch.chdir(tmp_path)
    inputs = '[inputs]\nimage = {shape = ["B", 8]}\n'
    (tmp_path / "old.toml").write_text(f"[model]\nwidth = 1\n{inputs}")
    (tmp_path / "new.toml").write_text(f"[model]\nwidth = 2\n{inputs}")
    folder = tmp_path / "a"
    return Request.from_flags(
        "a", "nets.py:Net", config="old.toml", recipe="lm", size="x", folder=folder
    )


def test_own_class_stays_as_it_is(own):
    assert changed(own, shards="2").keys() == {"mesh"}
    assert changed(own, model="nets.py:Net") == {}, "its arguments stay without --config"


def test_own_class_with_another_config(own):
    for flags in ({}, {"model": "nets.py:Net"}):
        found = changed(own, config="new.toml", **flags)
        assert found.keys() == {"own"}
        assert found["own"].arguments == {"width": 2}


def test_another_own_class(own):
    found = changed(own, model="nets.py:Other", config="new.toml")
    assert found.keys() == {"model", "own", "size", "recipe"}
    assert found["model"] == "../nets.py:Other", "as it is typed in the project's folder"


def test_from_an_own_class_to_a_family_and_back(own):
    found = changed(own, model="gpt-j", dtype="float32")
    assert (found["model"], found["own"], found["dtype"]) == ("gpt-j", None, "float32")
    found = changed(ASKED, model="nets.py:Net", config="new.toml")
    assert found["own"].arguments == {"width": 2}
    assert found["dtype"] == "bfloat16"


def test_dtype_of_an_own_class(own):
    with refused("--dtype: ../nets.py:Net computes in what its own code says"):
        own.with_flags(dtype="float32")
