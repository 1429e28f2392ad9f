"""What redco remembers of a project."""

import hashlib
import json

import pytest
import samples

from redco_new import __version__
from redco_new.errors import RedcoError
from redco_merge.migrate import LATEST
from redco_new.project.archive import unpack
from redco_new.project.manifest import Manifest, PendingChange, read_manifest, runtime_digest
from redco_new.project.records import BASE, new_records
from redco_new.request import Request
from redco_new.transaction import MANIFEST, sha256

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
    return read_manifest(tmp_path)[0]


def test_manifest():
    content = json.loads(manifest().to_json())
    assert content == {
        "schema": 2,
        "generator": __version__,
        "interface": LATEST,
        "template": "redco",
        "request": {
            "name": "my-project",
            "model": "gpt-j",
            "dtype": "bfloat16",
            "zero": 0,
            "sequence_parallel": False,
            "features": [],
            "launch": ["slurm", "hosts", "jobset"],
            "mesh": {"data": -1, "fsdp": 1, "expert": 1, "model": 4},
        },
        "model": None,
        "files": content["files"],
        "runtime": runtime_digest({}),
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


def test_what_redco_wrote_is_in_one_archive():
    records = new_records(samples.REQUEST, FILES)
    assert records.keys() == {MANIFEST, BASE}
    assert records[MANIFEST].decode() == manifest().to_json()
    assert unpack(records[BASE]) == {path: text.encode() for path, text in FILES.items()}


def test_one_digest_for_the_runtime():
    files = FILES | {"my_project/runtime/a.py": "a\n", "my_project/runtime/b/c.py": "c\n"}
    content = json.loads(manifest(files).to_json())
    assert content["files"].keys() == FILES.keys()
    others = [
        files | {"my_project/runtime/a.py": "b\n"},
        files | {"my_project/runtime/d.py": ""},
        {path: text for path, text in files.items() if path != "my_project/runtime/a.py"},
        {path.replace("a.py", "e.py"): text for path, text in files.items()},
    ]
    digests = {content["runtime"], *(json.loads(manifest(x).to_json())["runtime"] for x in others)}
    assert len(digests) == 5


def test_file_without_an_owner():
    with pytest.raises(RedcoError, match="setup.py"):
        manifest({"setup.py": ""}).to_json()


def test_no_project(tmp_path):
    with pytest.raises(RedcoError, match="is not a redco project: it has no .redco/manifest.json"):
        read_manifest(tmp_path)
