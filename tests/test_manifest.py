"""What redco remembers of a project."""

import hashlib
import json

import pytest
import samples

from redco_new import __version__
from redco_new.errors import RedcoError
from redco_new.manifest import MANIFEST, manifest, records
from redco_new.request import Request

FILES = {
    "my_project/train.py": "x = 'ü'\n",
    "launch/hosts.sh": "#!/bin/sh\n",
    "redco.toml": "a = 1\n",
}


def test_manifest():
    content = json.loads(manifest(samples.REQUEST, FILES))
    assert content.keys() == {"schema", "generator", "request", "files"}
    assert content["schema"] == 1
    assert content["generator"] == __version__
    assert content["request"] == {
        "name": "my-project",
        "model": "gpt-j",
        "dtype": "bfloat16",
        "zero": 0,
        "sequence_parallel": False,
        "mesh": {"data": -1, "fsdp": 1, "expert": 1, "model": 4},
    }
    assert content["files"].keys() == FILES.keys()
    assert content["files"]["my_project/train.py"] == {
        "owner": "yours",
        "sha256": hashlib.sha256("x = 'ü'\n".encode()).hexdigest(),
    }
    assert content["files"]["launch/hosts.sh"]["owner"] == "generated"


def test_request_can_be_made_again_from_the_manifest():
    asked = json.loads(manifest(samples.REQUEST, FILES))["request"]
    mesh = ",".join(f"{axis}={size}" for axis, size in asked.pop("mesh").items())
    assert Request.from_flags(**asked, mesh=mesh) == samples.REQUEST


def test_order_of_files_changes_nothing():
    backwards = dict(reversed(FILES.items()))
    text = manifest(samples.REQUEST, FILES)
    assert manifest(samples.REQUEST, backwards) == text
    assert text.endswith("}\n")
    assert list(json.loads(text)["files"]) == sorted(FILES)


def test_one_pristine_copy_a_file():
    base = records(samples.REQUEST, FILES)
    assert base.pop(MANIFEST) == manifest(samples.REQUEST, FILES)
    assert base == {f".redco/base/{path}.base": text for path, text in FILES.items()}


def test_file_without_an_owner():
    with pytest.raises(RedcoError, match="setup.py"):
        manifest(samples.REQUEST, {"setup.py": ""})
