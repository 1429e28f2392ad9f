"""--launch: which files of launch/ a project has."""

import pytest
from bad_input import complaint
from generated import make, texts

from redco_new.project.manifest import read_manifest
from redco_new.project.state import read_project_state
from redco_new.request import Request
from redco_new.request.launch import LAUNCH_FILES
from redco_new.update.redco_toml import read_request


def files(**flags):
    """The names of the files of launch/ of a project."""
    printed = texts(Request.from_flags("a", "gpt2", **flags))[0]
    return {path.removeprefix("launch/") for path in printed if path.startswith("launch/")}


def test_a_project_has_the_launchers_that_are_asked_for():
    assert files() == {"slurm.sbatch", "hosts.sh", "jobset.yaml"}
    assert files(launch="sky, kubeflow") == {"sky.yaml", "kubeflow.yaml"}
    assert files(launch="pbs") == {"pbs.sh", "hosts.sh"}  # which it runs
    assert files(launch=",".join(LAUNCH_FILES)) == {file.name for file in LAUNCH_FILES.values()}


@pytest.mark.parametrize("value", ["slurm,lsf", ""])
def test_a_launcher_that_there_is_not_is_refused(value):
    error = complaint(f"redco-new my-project --model gpt2 --launch '{value}'")
    assert "--launch: unknown launcher" in error and "slurm,hosts,jobset" in error


def test_a_project_made_before_keeps_those_that_it_has(tmp_path):
    project = make(tmp_path, launch="slurm,hosts,xmanager")
    (project / "launch/hosts.sh").unlink()
    toml = project / "redco.toml"
    lines = toml.read_text().splitlines(keepends=True)
    kept = "".join(line for line in lines if not line.startswith("launch"))
    toml.write_text(f"# launch it from here\n{kept}")
    manifest = project / ".redco/manifest.json"
    text = manifest.read_text()
    assert read_manifest(project)[0].request["launch"] == ["slurm", "hosts", "xmanager"]
    start, stop = text.index('"launch": ['), text.index("]", text.index('"launch": ['))
    manifest.write_text(text[:start] + text[stop + 2 :].lstrip())
    assert read_request(read_project_state(project)).launch == ("slurm", "xmanager")
