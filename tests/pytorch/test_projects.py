"""Projects of PyTorch classes: created, trained as PyTorch trains them, exported and read by PyTorch; their own tests."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from generated import EXACT, run, users_environ

HERE = Path(__file__).parent
# name: (class, recipe, what --config holds, the flags of the mesh)
PROJECTS = {
    "figures": (
        "TorchNet",
        "classify",
        '[model]\nfeatures = 24\n[inputs]\nx = {shape = ["B", 24]}\n',
        "model=4",
    ),
    "images": (
        "TorchCNN",
        "classify",
        '[inputs]\nimage = {shape = ["B", 1, 8, 8]}\n',
        "fsdp=2,model=2",
    ),
    "words": (
        "TorchGPT",
        "lm",
        '[inputs]\nids = {shape = ["B", 16], dtype = "int32"}\n',
        "model=4",
    ),
}
ARGUMENTS = {"figures": '{"features": 24}'}

pytestmark = pytest.mark.slow  # a project each, with its steps compiled, and PyTorch


@pytest.fixture(scope="module", params=PROJECTS)
def project(request, tmp_path_factory):
    """(name of the project, its folder)."""
    name, folder = request.param, tmp_path_factory.mktemp("torch")
    model, recipe, config, mesh = PROJECTS[name]
    shutil.copy(HERE / "nets_projects.py", folder)
    (folder / "net.toml").write_text(config)
    command = f"redco-new {name} --model nets_projects.py:{model} --config net.toml --recipe {recipe} --mesh {mesh}"
    code, out, err = run(command, folder)
    assert code == 0, err
    return name, folder / name


def test_its_losses_are_those_of_pytorch_and_its_export_is_read_there(project):
    name, place = project
    net, arguments, mesh = PROJECTS[name][0], ARGUMENTS.get(name, "{}"), PROJECTS[name][3]
    command = [sys.executable, str(HERE / "check_project.py"), name, f"../nets_projects.py:{net}"]
    env = users_environ() | EXACT
    done = subprocess.run(
        [*command, arguments, mesh], cwd=place, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    gaps = dict(re.findall(r"^(\w+) ([\d.e-]+)$", done.stdout, re.MULTILINE))
    assert float(gaps["losses"]) < 1e-5 and float(gaps["exported"]) < 1e-5, done.stdout


@pytest.mark.parametrize("project", ["images"], indirect=True)
def test_it_trains_without_pytorch_and_goes_on(project):
    """With means and variances too; what the other two print imports no more than this does."""
    name, place = project
    hidden = place / "hidden"  # which makes `import torch` fail
    (hidden / "torch").mkdir(parents=True)
    (hidden / "torch/__init__.py").write_text("raise ImportError('it is not installed')\n")
    first = f"python -m {name}.train --preset tiny --virtual-devices 4 --workdir runs/a --steps"
    for steps in (2, 4):
        code, out, err = run(f"{first} {steps}", place, PYTHONPATH=str(hidden))
        assert code == 0 and f"step {steps}/{steps}" in out, out + err
    code, out, err = run(f"python -m {name}.export --workdir runs/a --out exported-a", place)
    assert code == 0, err
    again = f"python -m {name}.train --preset tiny --steps 0 --init exported-a --virtual-devices 4 --workdir runs/b"
    code, out, err = run(again, place)
    assert code == 0 and "starting from the weights of exported-a" in out, out + err


@pytest.mark.parametrize("project", ["images"], indirect=True)
def test_its_own_tests_pass(project):
    """Of words, test_projects_goldens.py runs them."""
    code, out, err = run("python -m pytest -q tests", project[1])
    assert code == 0, out + err


@pytest.mark.parametrize("project", ["figures"], indirect=True)
def test_weights_that_do_not_fit_are_named(project):
    name, place = project
    init = f"python -m {name}.train --preset tiny --steps 0 --virtual-devices 4 --workdir runs/c --init"
    (place / "net.pt").write_bytes(b"")
    code, out, err = run(f"{init} net.pt", place)
    assert (
        code == 2 and "net.pt is a pickle, which can run any code; write model.safetensors" in err
    )
