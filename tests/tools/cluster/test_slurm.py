"""A generated project on a SLURM of two nodes, submitted by its own launch file.

make test-apart NAME=cluster (ten minutes on a busy machine): needs root and Debian's packages of SLURM, and names what is missing.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.slurm import Slurm

BIN = Path(sys.executable).parent
# A tiny model with one device a node, and steps enough for what befalls it.
FLAGS = """--preset tiny --num-layers 1 --embed-dim 32 --mlp-dim 64 --num-heads 2 --sequence-length 72
--virtual-devices 1 --save-every 10 --eval-every 1000000"""
ENDLESS = "1000000"  # steps


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a project made for two devices; it is the current folder, as of one who submits jobs."""
    folder = tmp_path_factory.mktemp("projects")
    command = [
        BIN / "redco-new",
        "my-project",
        "--model",
        "gpt2",
        "--shards",
        "2",
        "--output",
        folder,
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    before = Path.cwd()
    os.chdir(folder / "my-project")
    yield folder / "my-project"
    os.chdir(before)


@pytest.fixture
def slurm(project, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    for log in project.glob("*.out"):  # of another SLURM, whose jobs had these numbers too
        log.unlink()
    with Slurm(tmp_path) as slurm:
        yield slurm


class Job:
    """A job of the project's launch file, with its work folder and its log."""

    def __init__(self, slurm, project, workdir, *options, steps=ENDLESS):
        self._slurm, self.workdir = slurm, workdir
        submit = ["sbatch", "--parsable", "--nodes", "2", *options, "launch/slurm.sbatch"]
        self.number = slurm.run(
            *submit, *FLAGS.split(), "--steps", steps, "--workdir", workdir
        ).strip()
        self._log = project / f"my-project-{self.number}.out"

    @property
    def log(self):
        return self._log.read_text() if self._log.exists() else ""

    def state(self):
        return self._slurm.job(self.number)["JobState"]

    def saved(self):
        """Return the step of its last checkpoint, 0 for none."""
        folders = (self.workdir / "checkpoints").glob("*")
        return max((int(folder.name) for folder in folders if folder.name.isdecimal()), default=0)

    def wait(self, what, done, seconds=180):
        try:
            self._slurm.wait(seconds, what, done)
        except TimeoutError:
            print(self.log)
            raise

    def wait_steps(self):
        """Wait until it has made and saved ten steps or more from now on."""
        before = self.saved()
        self.wait("ten more steps", lambda: self.saved() > before + 9)

    def ends(self, seconds=300):
        """Return (state, exit code) once it has ended."""
        final = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        self.wait("its end", lambda: self.state() in final, seconds)
        print(self.log)
        return self.state(), self._slurm.job(self.number)["ExitCode"]


def export(project, workdir, out):
    """Return the bytes of a run's last parameters."""
    command = [BIN / "python", "-m", "my_project.export", "--workdir", workdir, "--out", out]
    subprocess.run([*command, "--virtual-devices", "2"], cwd=project, check=True)
    return (out / "model.safetensors").read_bytes()


def kill_a_rank(slurm, node):
    """Kill the process of training on a node."""
    command = node.command("pgrep", "--full", "python -u -m my_project.train", "--newest")
    number = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    subprocess.run(node.command("kill", "-KILL", number), check=True)


def test_a_disturbed_job_ends_as_an_undisturbed_one(slurm, project, tmp_path):
    calm = Job(slurm, project, tmp_path / "calm", steps="500")
    assert calm.ends() == ("COMPLETED", "0:0")

    job = Job(slurm, project, tmp_path / "run", steps="500")
    job.wait_steps()
    kill_a_rank(slurm, slurm.nodes[1])
    job.wait("a restart", lambda: "1: launch: restart 1 of 3" in job.log)
    job.wait_steps()
    assert slurm.job(job.number)["Restarts"] == "0"

    slurm.run("scancel", "--signal", "TERM", job.number)
    job.wait("a place in the queue", lambda: job.state() == "PENDING", 60)
    (saved,) = re.findall(r"stopped: step (\d+) is saved", job.log)
    after = len(job.log)
    job.wait_steps()
    assert f"resuming from step {saved} in" in job.log[after:]

    after = len(job.log)
    slurm.nodes[1].link("down")
    job.wait("its end", lambda: re.search("silent|NODE FAILURE|CANCELLED", job.log[after:]))
    slurm.nodes[1].link("up")
    assert job.ends() == ("COMPLETED", "0:0")
    assert export(project, calm.workdir, tmp_path / "a") == export(
        project, job.workdir, tmp_path / "b"
    )


def test_it_goes_on_past_its_time_limit(slurm, project, tmp_path):
    job = Job(slurm, project, tmp_path / "run", "--time", "1", "--signal", "TERM@20")
    job.wait("a place in the queue", lambda: job.state() == "PENDING" and job.saved(), 120)
    (saved,) = re.findall(r"stopped: step (\d+) is saved", job.log)
    job.wait("its next start", lambda: f"resuming from step {saved} in" in job.log)
    assert int(slurm.job(job.number)["Restarts"]) > 0


def test_a_job_of_higher_priority_takes_its_nodes_for_a_while(slurm, project, tmp_path):
    job = Job(slurm, project, tmp_path / "run")
    job.wait_steps()
    urgent = ["sbatch", "--parsable", "--partition", "urgent", "--nodes", "2", "--exclusive"]
    number = slurm.run(*urgent, "--output", tmp_path / "urgent", "--wrap", "sleep 5").strip()
    job.wait("a place in the queue", lambda: job.state() == "PENDING", 60)
    (saved,) = re.findall(r"stopped: step (\d+) is saved", job.log)
    job.wait("the other job's end", lambda: slurm.job(number)["JobState"] == "COMPLETED", 120)
    job.wait("its next start", lambda: f"resuming from step {saved} in" in job.log)


def test_scancel_saves_and_ends_it(slurm, project, tmp_path):
    job = Job(slurm, project, tmp_path / "run")
    job.wait_steps()
    slurm.run("scancel", job.number)
    job.wait("what it says last", lambda: "stopped: step" in job.log, 30)
    assert job.ends()[0] == "CANCELLED"
    (saved,) = re.findall(r"stopped: step (\d+) is saved", job.log)
    assert (tmp_path / "run" / "checkpoints" / saved).is_dir()
    assert slurm.job(job.number)["Restarts"] == "0"


def test_the_exit_code_of_training_is_that_of_the_job(slurm, project, tmp_path):
    job = Job(slurm, project, "/proc/none")
    assert job.ends() == ("FAILED", "2:0")
    assert "launch: restart" not in job.log
