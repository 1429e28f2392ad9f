"""launch/ray.py on a real Ray: two processes that give the losses of launch's own, and go on after a worker is killed."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from redco_new.project.create import create_project
from redco_new.request import Request

RAY = Path(os.environ.get("RAY", ".ray")).resolve()
FLAGS = ("--preset", "tiny", "--save-every", "10")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    request = Request.from_flags("words", "gpt2", mesh="data=2", launch="ray")
    return create_project(request, tmp_path_factory.mktemp("ray"))


@pytest.fixture
def environ(project):
    return os.environ | {"PYTHONPATH": f"{RAY}:{project}", "JAX_PLATFORMS": "cpu"}


def losses(text):
    return re.findall(r"step (\d+)/\d+  (?:held-out )?loss ([\d.]+)", text)[-1]


def ray(project, workdir, *flags):
    command = ("-P", "launch/ray.py", "--hosts", "2", "--gpus", "0", "--workdir", str(workdir))
    return [sys.executable, *command, "--", *FLAGS, *flags]


def test_its_losses_are_those_of_the_launcher(project, environ, tmp_path):
    def run(command):
        done = subprocess.run(
            command, cwd=project, env=environ, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return losses(done.stdout + done.stderr)

    launch = ("words.runtime.cluster.launch", "--processes", "2", "-m", "words.train")
    steps = ("--steps", "20")
    own = run([sys.executable, "-m", *launch, *FLAGS, *steps, "--workdir", str(tmp_path / "a")])
    assert run(ray(project, tmp_path / "b", *steps)) == own


def test_a_worker_that_is_killed_is_replaced_and_all_go_on(project, environ, tmp_path):
    log = tmp_path / "log"
    with log.open("w") as out:
        started = subprocess.Popen(
            ray(project, tmp_path / "a", "--steps", "80"),
            cwd=project,
            env=environ,
            stdout=out,
            stderr=out,
        )
        while not list((tmp_path / "a/checkpoints").glob("[1-9]0")):
            assert started.poll() is None, log.read_text()
            time.sleep(0.5)
        worker = re.findall(r"RayTrainWorker pid=(\d+)", log.read_text())[0]
        os.kill(int(worker), signal.SIGKILL)
        assert started.wait(300) == 0, log.read_text()
    assert "resuming from step" in log.read_text()


def test_bad_flags_are_not_tried_again(project, environ, tmp_path):
    command = ray(project, tmp_path / "a", "--steps", "none")
    done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True)
    assert done.returncode == 2 and "--steps: invalid int value" in done.stdout + done.stderr
