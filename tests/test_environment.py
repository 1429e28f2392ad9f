"""Several projects in one environment: each has its own runtime, and redco-new and update have redco's."""

import shutil
import subprocess
import sys
import venv

import pytest
from generated import ROOT, users_environ

FORMER = ROOT / "tests/update/former/my-project"  # of another version, with another runtime
UNLIKE = {  # name -> flags of redco-new
    "b": ["--model", "llama", "--recipe", "sft"],
    "c": ["--recipe", "ppo"],
}


@pytest.fixture
def environment(tmp_path):
    """(program, *arguments) -> output of it in an environment in which projects can be installed."""
    venv.create(tmp_path / "venv", symlinks=True)
    packages = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    here = [str(ROOT / "generator"), *[path for path in sys.path if path.endswith("site-packages")]]
    (packages / "z.pth").write_text("".join(f"{path}\n" for path in here))  # the last of them

    def run(*command):
        program = str(tmp_path / "venv/bin/python")
        done = subprocess.run(
            [program, *command],
            cwd=tmp_path,
            env=users_environ(),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(project):
        """As `pip install --editable` of a project does by hatchling."""
        (packages / f"{project.name}.pth").write_text(f"{project}\n")

    run.install = install
    return run


def redco(program, *arguments):
    return ["-c", f"from redco_new.cli import {program}_main; {program}_main()", *arguments]


@pytest.mark.slow
def test_projects_of_unlike_recipes_and_versions_share_an_environment(environment, tmp_path):
    first = shutil.copytree(FORMER, tmp_path / "a")
    environment.install(first)
    environment(*redco("new", "b", *UNLIKE["b"]))
    environment.install(tmp_path / "b")
    environment(*redco("new", "c", *UNLIKE["c"]))  # where it has the runtimes of two projects
    (tmp_path / "b/redco.toml").write_text(
        (tmp_path / "b/redco.toml").read_text().replace("model = 1", "model = 2")
    )
    environment(*redco("redco", "update", "b"))
    environment.install(tmp_path / "c")
    for name in "bc":  # from a folder that is none of theirs
        arguments = ["--preset", "tiny", "--steps", "1", "--workdir", f"run-{name}"]
        environment("-m", f"{name}.train", *arguments, "--virtual-devices", "2")
    # in one process too
    runtimes = environment(
        "-c", "import b.steps, c.steps; print(b.runtime.__file__, c.runtime.__file__)"
    )
    assert runtimes.split() == [str(tmp_path / x / x / "runtime/__init__.py") for x in "bc"]
