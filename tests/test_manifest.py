"""What redco remembers of a project."""

import hashlib
import json

import pytest
import samples

from redco_new import __version__
from redco_new.errors import RedcoError
from redco_new.migrate import LATEST
from redco_new.project.manifest import MANIFEST, Manifest, PendingChange, read_manifest, records
from redco_new.request import Request
from redco_new.transaction import sha256

FILES = {
    "my_project/train.py": "x = 'ü'\n",
    "launch/hosts.sh": "#!/bin/sh\n",
    "redco.toml": "a = 1\n",
}


def manifest(files=FILES, **others):
    digests = {path: sha256(text.encode()) for path, text in files.items()}
    return Manifest(samples.REQUEST.to_dict(), digests, **others)


FULL = manifest(
    fork=True,
    ejected_paths=("launch/slurm.sbatch", "launch/tpu-vm.sh"),
    pending=(
        PendingChange(
            "my_project/pipeline.py", "loss", "it is yours", "new ü", "old", update_applied=True
        ),
        PendingChange("README.md", "line 5", "both", "new", side="theirs"),
    ),
    model_record={"key": "", "source": "gpt2", "found": "()"},
)


def read(tmp_path, text):
    (tmp_path / ".redco").mkdir()
    (tmp_path / MANIFEST).write_text(text, encoding="utf-8")
    return read_manifest(tmp_path)


def test_manifest():
    content = json.loads(manifest().to_json())
    assert content == {
        "schema": 1,
        "generator": __version__,
        "interface": LATEST,
        "template": "redco",
        "request": {
            "name": "my-project",
            "model": "gpt-j",
            "dtype": "bfloat16",
            "zero": 0,
            "sequence_parallel": False,
            "mesh": {"data": -1, "fsdp": 1, "expert": 1, "model": 4},
        },
        "model": None,
        "files": content["files"],
        "ejected": [],
        "pending": [],
    }
    assert content["files"].keys() == FILES.keys()
    assert content["files"]["my_project/train.py"] == {
        "owner": "yours",
        "sha256": hashlib.sha256("x = 'ü'\n".encode()).hexdigest(),
    }
    assert content["files"]["launch/hosts.sh"]["owner"] == "generated"


@pytest.mark.parametrize("written", [manifest(), FULL])
def test_it_is_read_as_it_was_written(tmp_path, written):
    assert read(tmp_path, written.to_json()) == written


def test_keys_of_a_pending_change_are_those_of_older_redcos():
    entry = json.loads(FULL.to_json())["pending"][0]
    assert entry == {
        "path": "my_project/pipeline.py",
        "symbol": "loss",
        "reason": "it is yours",
        "theirs": "new ü",
        "base": "old",
        "side": "",
        "given": "",
        "applied": True,
    }


def test_one_of_an_older_redco_is_read(tmp_path):
    content = json.loads(FULL.to_json())
    content["generator"] = "0.0.1"
    assert read(tmp_path, json.dumps(content)) == FULL


def test_request_can_be_made_again_from_the_manifest():
    asked = json.loads(manifest().to_json())["request"]
    mesh = ",".join(f"{axis}={size}" for axis, size in asked.pop("mesh").items())
    assert Request.from_flags(**asked, mesh=mesh) == samples.REQUEST


def test_order_of_files_changes_nothing():
    text = manifest().to_json()
    assert manifest(dict(reversed(FILES.items()))).to_json() == text
    assert text.endswith("}\n")
    assert list(json.loads(text)["files"]) == sorted(FILES)


def test_one_pristine_copy_a_file():
    base = records(samples.REQUEST, FILES)
    assert base.pop(MANIFEST) == manifest().to_json()
    assert base == {f".redco/base/{path}.base": text for path, text in FILES.items()}


def test_file_without_an_owner():
    with pytest.raises(RedcoError, match="setup.py"):
        manifest({"setup.py": ""}).to_json()


def test_no_project(tmp_path):
    with pytest.raises(RedcoError, match="is not a redco project: it has no .redco/manifest.json"):
        read_manifest(tmp_path)
