"""Each reader of a file that a user can write, of the generator: whatever it says, one error, and no traceback."""

import ast
import json
import lzma
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from fuzz import FUZZ, changed, damaged, of_json, of_toml, refused
from hypothesis import given, settings
from samples import REQUEST

from redco_new.errors import RedcoError
from redco_new.models.families import FAMILIES
from redco_new.models.find import find_model
from redco_new.models.recorded import recall, record
from redco_new.project.archive import unpack
from redco_new.project.manifest import PendingChange, read_manifest
from redco_new.project.records import BASE, new_records
from redco_new.render.values import admit
from redco_new.request import Request
from redco_new.request.own_class import read_config
from redco_new.transaction import MANIFEST


@FUZZ
@given(of_toml({**REQUEST.to_dict(), "lora": {"rank": 8, "targets": ["q"]}, "size": "7b"}))
def test_redco_toml(text):
    with refused(RedcoError):
        request = Request.from_toml(text.decode("utf-8", "replace"))
        assert Request.from_toml(request.to_toml()) == request


OWN = {
    "model": {"features": 32, "class": "nets.py:Net", "tiny": {"features": 2}, "act": ["a", 1]},
    "inputs": {
        "x": {"shape": ["B", 28, 28], "dtype": "float32"},
        "ids": {"shape": ["B", 4], "dtype": "int32", "below": 9},
        "mask": {"shape": [4], "dtype": "bool", "value": True},
        "text": {"ids": {"shape": ["B", 2]}},
        "cache": "None",
    },
    "output": "logits",
    "method": "encode",
}


@FUZZ
@given(of_toml({"name": "my-project", "recipe": "classify", **OWN, "mesh": {"model": 2}}))
def test_redco_toml_of_an_own_class(text):
    with refused(RedcoError):
        request = Request.from_toml(text.decode("utf-8", "replace"))
        assert Request.from_toml(request.to_toml()) == request


@FUZZ
@given(text=of_toml(OWN))
def test_config_of_an_own_class(text, tmp_path):
    (tmp_path / "net.toml").write_bytes(text)
    with refused(RedcoError):
        read_config(str(tmp_path / "net.toml"))


def config_json(name: str) -> dict[str, Any]:
    """Return the config.json of the default size of a family."""
    family = FAMILIES[name]
    kind = {"model_type": family.model_type, "architectures": [family.architecture]}
    more = {"id2label": {"0": "A"}, "tie_word_embeddings": True, "dtype": "bfloat16"}
    return family.defaults | next(iter(family.sizes.values())).config | kind | more


@pytest.mark.parametrize("name", FAMILIES)
@settings(FUZZ, max_examples=15)
@given(data=st.data())
def test_config_json(name, data, tmp_path):
    (tmp_path / "config.json").write_bytes(data.draw(of_json(config_json(name))))
    with refused(RedcoError):
        model = find_model(str(tmp_path), "", 2)
        admit(model.context("my_project"), "model")


FILES = {"my_project/model.py": "x = 1\n", "redco.toml": "name = 1\n"}


@FUZZ
@given(data=st.data())
def test_manifest_json(data, tmp_path):
    manifest = json.loads(new_records(REQUEST, FILES)[MANIFEST])
    manifest["pending"] = [asdict(PendingChange("a.py", "f", "why", "x"))]
    manifest["ejected"] = ["launch/hosts.sh"]
    (tmp_path / MANIFEST).parent.mkdir(exist_ok=True)
    (tmp_path / MANIFEST).write_bytes(data.draw(of_json(manifest)))
    with refused(RedcoError):
        read_manifest(tmp_path)[0].to_json()


TAR = lzma.decompress(new_records(REQUEST, FILES)[BASE])


@FUZZ
@given(data=st.data())
def test_archive(data):
    with refused(ValueError):
        unpack(lzma.compress(data.draw(damaged(TAR)), preset=0))


KEY = ("llama", "", 1, Path())


@FUZZ
@given(st.data())
def test_the_record_of_a_model(data):
    recorded = record(find_model(*KEY), *KEY)
    parts = list(ast.literal_eval(recorded["found"]))
    whole = changed(parts).map(lambda x: repr(tuple(x) if isinstance(x, list) else x))
    cut = damaged(recorded["found"].encode()).map(lambda x: x.decode("utf-8", "replace"))
    with refused(RedcoError):
        if model := recall(recorded | {"found": data.draw(whole | cut)}, *KEY):
            admit(model.context("my_project"), "model")
