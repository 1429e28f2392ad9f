"""Projects of classes with several kernels in one: they compute what the class does, and move no array for it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from compiled.targets import environment
from safetensors.numpy import load_file

from generated import run

from redco_new.project.create import create_project
from redco_new.request import Request

HERE = Path(__file__).parent
CAUSAL = '[model]\nwords = 128\nwidth = 64\nheads = 4\nlayers = 1\n[inputs]\nids = {shape = ["B", 16], dtype = "int32"}\n'
PATCHES = (
    "[model]\nwidth = 32\nheads = 4\nlayers = 2\nclasses = 8\n"
    '[inputs]\nimage = {shape = ["B", 16, 16, 3]}\n'
)
# name: (class, recipe, what --config holds, mesh)
PROJECTS = {
    "causal": ("Causal", "lm", CAUSAL, "model=4"),
    "patches": ("Patches", "classify", PATCHES, "fsdp=2,model=2"),
}
# path: (dim, size of each part)
APART = {
    "causal": {
        "net/Dense_0/kernel": (1, (64,) * 3),
        "net/Dense_0/bias": (0, (64,) * 3),
        "net/Dense_2/kernel": (1, (256,) * 2),
    },
    "patches": {
        "net/blocks/qkv/kernel": (2, (32,) * 3),
        "net/blocks/qkv/bias": (1, (32,) * 3),
        "net/blocks/up/kernel": (2, (128,) * 2),
    },
}

pytestmark = pytest.mark.slow  # whole projects, trained; a minute


@pytest.fixture(scope="module", params=PROJECTS)
def project(request, tmp_path_factory):
    """The folder of a project, made."""
    name = request.param
    cls, recipe, config, mesh = PROJECTS[name]
    folder = tmp_path_factory.mktemp("fused")
    shutil.copy(HERE / "nets_fused.py", folder)
    (folder / "net.toml").write_text(config)
    flags = {"mesh": mesh, "recipe": recipe, "config": str(folder / "net.toml")}
    model = f"{folder / 'nets_fused.py'}:{cls}"
    return create_project(Request.from_flags(name, model, folder=folder / name, **flags), folder)


@pytest.mark.parametrize("project", ["causal"], indirect=True)
def test_it_computes_what_its_class_does_on_one_device_and_on_four(project):
    shutil.copy(HERE / "check_fused.py", project)
    code, out, err = run(f"python check_fused.py {project.name}", project)
    assert code == 0, out + err


@pytest.mark.parametrize("project", ["patches"], indirect=True)
def test_it_trains_and_gives_the_weights_in_the_shapes_of_its_class(project):
    for command in (
        "train --preset tiny --steps 3 --virtual-devices 4 --workdir runs/a",
        "export --workdir runs/a --out exported",
        "train --preset tiny --steps 0 --virtual-devices 4 --init exported --workdir runs/b",
        "export --workdir runs/b --out again",
    ):
        code, out, err = run(f"python -m {project.name}.{command}", project)
        assert code == 0, out + err
    first, again = (
        load_file(project / name / "model.safetensors") for name in ("exported", "again")
    )
    assert first.keys() == again.keys()
    for path, (dim, sizes) in APART[project.name].items():
        name = next(
            name for name in first if name.endswith(path.removeprefix("net/").replace("/", "."))
        )
        assert first[name].shape[dim] == sum(sizes)
        assert (first[name] == again[name]).all()


def test_sharding_py_says_what_is_stored_apart_and_what_is_constrained(project):
    tables: dict = {}
    exec((project / project.name / "sharding.py").read_text(), tables)
    assert tables["APART"].items() >= APART[project.name].items()
    for path, (_, sizes) in tables["APART"].items():
        assert [f"{path}/{i}" in tables["PARAMS"] for i in range(len(sizes) + 1)] == [
            *[True] * len(sizes),
            False,
        ]
    for path, spec in tables["ACTIVATIONS"].items():
        assert spec[0] == ("data", "fsdp") and "fsdp" in tables["PARAMS"][path]
    assert tables["ACTIVATIONS"]


def test_the_project_stands_alone(project):
    for path in project.rglob("*.py"):
        assert "redco_new" not in path.read_text(), path


def test_its_compiled_step_changes_no_layout(project):
    """For four H100s: no all-to-all; without fsdp, nothing but all-reduces."""
    env = environment() | {
        "PYTHONPATH": os.pathsep.join([environment()["PYTHONPATH"], str(project)])
    }
    command = [sys.executable, "-m", "compiled.project", project.name]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])["counts"]
    assert counts["all-reduce"] and "all-to-all" not in counts
    assert project.name == "patches" or counts.keys() == {"all-reduce"}
