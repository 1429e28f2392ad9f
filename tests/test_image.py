"""The Dockerfile of a project, read as an engine reads it; no engine is here, so that it is never built."""

import fnmatch
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from generated import make, texts

from redco_new.request import Request


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return make(tmp_path_factory.mktemp("image"), mesh="data=2")


def instructions(project):
    """[(instruction, argument)], comments and empty lines left out."""
    lines = (project / "Dockerfile").read_text().splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if line and not line.startswith("#")]


def is_sent(project, path):
    """Whether .dockerignore lets a path of the project through."""
    patterns = (project / ".dockerignore").read_text().split()
    parts = Path(path).parts
    return not any(
        fnmatch.fnmatch(part, pattern.removeprefix("**/").rstrip("/"))
        for pattern in patterns
        for part in (parts if pattern.startswith("**/") else parts[:1])
    )


def test_each_copy_has_its_source_and_the_project_comes_after_what_it_requires(project):
    copies = [shlex.split(rest)[:-1] for name, rest in instructions(project) if name == "COPY"]
    assert copies == [["pyproject.toml"], ["."]]
    assert all((project / source).exists() for sources in copies for source in sources)
    assert is_sent(project, "pyproject.toml") and is_sent(project, "my_project/runtime/launch.py")
    assert not is_sent(project, "runs/a/checkpoints") and not is_sent(project, ".git/config")
    assert not is_sent(project, "my_project/__pycache__/train.pyc")


def test_it_runs_as_no_root_in_the_folder_of_the_project(project):
    given = instructions(project)
    (user,) = [rest for name, rest in given if name == "USER"]
    assert user == "1000" and given[-1] == ("USER", user)
    text = (project / "launch/jobset.yaml").read_text()
    assert f"fsGroup: {user}" in text and "image: REGISTRY/my-project #<" in text


def test_the_queue_of_kueue_is_one_line_to_uncomment():
    printed = texts(Request.from_flags("a", "gpt2", launch="jobset,kubeflow"))[0]
    for name in ("jobset", "kubeflow"):
        text = printed[f"launch/{name}.yaml"]
        labels = yaml.safe_load(re.sub(r"# (labels: .*) #<.*", r"\1", text))["metadata"]["labels"]
        assert labels == {"kueue.x-k8s.io/queue-name": "QUEUE"}


def test_a_project_whose_launchers_start_no_image_has_none():
    printed = texts(Request.from_flags("a", "gpt2", launch="slurm,hosts"))[0]
    assert not {"Dockerfile", ".dockerignore"} & printed.keys()


@pytest.mark.long  # it installs JAX anew
def test_each_run_works_in_an_environment_that_has_nothing(project, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    work, env = tmp_path / "project", {"PATH": f"{tmp_path}/env/bin:{os.environ['PATH']}"}
    env |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    work.mkdir()
    for name, rest in instructions(project):
        if name == "COPY":
            copied = "pyproject.toml" if rest.startswith("pyproject") else "."
            subprocess.run(["cp", "-a", f"{project}/{copied}", work], check=True)
        if name == "RUN":
            run = subprocess.run(
                rest, shell=True, cwd=work, env=env | {"JAX": "jax"}, capture_output=True
            )
            assert run.returncode == 0, run.stderr.decode()
    train = ("my_project.train", "--preset", "tiny", "--steps", "2", "--virtual-devices", "2")
    command = ["python", "-m", *train, "--workdir", str(tmp_path / "run")]
    run = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True)
    assert run.returncode == 0 and "step 2/2" in run.stdout, run.stdout + run.stderr
