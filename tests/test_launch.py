"""The emitted launch files: what they start, with what boot.py reads, and how it ends."""

import os
import py_compile
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import emitted
import pytest

PROGRAM = """
import jax
from my_project.boot import boot

process = boot(virtual_devices=1)
print("BOOTED", process.index, jax.process_count())
"""
SAY = (
    'echo "$PWD $REDCO_COORDINATOR $REDCO_PROCESS_INDEX of $REDCO_PROCESS_COUNT,'
    ' given $(printf "<%s>" "$@")"'
)
SSH = 'echo "ssh $5"; cd /; setsid --wait env --default-signal=TERM bash -c "$6"'
SLOW = "trap 'sleep 1; echo saved; exit 75' TERM; touch $1-$REDCO_PROCESS_INDEX; sleep 60 & wait"
COMMAND = ["bash", "-c", SAY, "name", "1 2", "'", ""]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return emitted.write_project(tmp_path_factory.mktemp("launch"))


@pytest.fixture
def fake(tmp_path):
    """fake(name, script) makes a program and returns the PATH on which it is the first."""

    def fake(name, script):
        (tmp_path / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / name).chmod(0o755)
        return f"{tmp_path}:{os.environ['PATH']}"

    return fake


def hosts_sh(project, *arguments, **variables):
    return emitted.run(project, "bash", "launch/hosts.sh", *arguments, **variables)


def test_hosts_sh_boots_two_processes_behind_a_proxy(project):
    command = [sys.executable, "-c", PROGRAM]
    code, out = hosts_sh(project, "--", *command, http_proxy="http://127.0.0.1:9")
    assert code == 0, out
    assert "[0] BOOTED 0 2\n" in out and "[1] BOOTED 1 2\n" in out


def test_hosts_sh_stops_all_when_one_fails(project):
    command = 'echo "$$"; [ "$REDCO_PROCESS_INDEX" = 0 ] || { sleep 0.5; exit 7; }; exec sleep 600'
    code, out = hosts_sh(project, "--", "bash", "-c", command)
    assert code == 7
    assert "hosts.sh: process 1 on localhost ended with 7; stopping the others\n" in out
    (pid,) = re.findall(r"^\[0\] (\d+)$", out, re.MULTILINE)
    assert not Path("/proc", pid).exists()


def test_hosts_sh_leaves_elastic_launchers_without_the_one_that_is_lost(project):
    command = ["sh", "-c", 'test "$REDCO_PROCESS_INDEX" = 0 || exit 255', "--elastic"]
    code, out = hosts_sh(project, "--", *command)
    assert code == 0 and "process 1 on localhost ended with 255; the others go on\n" in out


def test_hosts_sh_over_ssh(project, fake):
    path = fake("ssh", SSH)
    code, out = hosts_sh(project, "me@a", "b", "--", *COMMAND, PATH=path)
    assert code == 0, out
    for index, host in enumerate(["me@a", "b"]):
        said = [line[4:] for line in out.splitlines() if line.startswith(f"[{index}] ")]
        assert said[0] == f"ssh {host}"
        expected = rf"{project} a:6\d{{4}} {index} of 2, given <1 2><'><>"
        assert re.fullmatch(expected, said[1])


@pytest.mark.parametrize("hosts", [["localhost", "localhost"], ["a", "b"]])
def test_hosts_sh_passes_a_signal_on_and_waits(project, fake, tmp_path, hosts):
    path, sign = fake("ssh", SSH), str(tmp_path / "up")
    command = ["bash", "launch/hosts.sh", *hosts, "--", "bash", "-c", SLOW, "name", sign]
    env = emitted.clean_environ(project, PATH=path)
    with subprocess.Popen(
        command, cwd=project, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        until = time.monotonic() + 20
        while len(list(tmp_path.glob("up-*"))) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        out = process.communicate(timeout=20)[0]
    assert process.returncode == 75, out
    assert out.count("saved\n") == 2


@pytest.mark.parametrize(
    "arguments", [[], ["--"], ["a"], ["a", "--"], ["-x", "--", "x"], ["localhost", "a", "--", "x"]]
)
def test_hosts_sh_refuses(project, arguments):
    code, out = hosts_sh(project, *arguments)
    assert (code, out.count("\n")) == (2, 1)
    assert out.startswith("hosts.sh: ")


@pytest.mark.parametrize("workers", ["10.0.0.1,10.0.0.2", "a:0:10.0.0.1,b:1:10.0.0.2"])
def test_tpu_vm_sh(project, fake, tmp_path, workers):
    folder = tmp_path / "my-project"
    folder.mkdir()
    fake("curl", f"[[ ${{!#}} == */agent-worker-number ]] && echo $WORKER || echo {workers}")
    path = fake("gcloud", 'for WORKER in 0 1; do export WORKER; bash -c "${!#}"; done')
    start = ["bash", "launch/tpu-vm.sh", "tpu", "zone"]
    code, out = emitted.run(project, *start, "--", *COMMAND, PATH=path, HOME=str(tmp_path))
    said = f"{folder} 10.0.0.1:8482 {{}} of 2, given <1 2><'><>\n"
    assert (code, out) == (0, said.format(0) + said.format(1))
    assert (folder / "launch.log").read_text() == out
    assert emitted.run(project, *start, PATH=path)[0] == 2
    assert emitted.run(project, *start, "--", PATH=path)[0] == 2


def test_tpu_vm_sh_stops_what_it_started(project, fake, tmp_path):
    (tmp_path / "my-project").mkdir()
    path = fake("gcloud", 'bash -c "${!#}"')
    with subprocess.Popen(["sleep", "60"]) as process:
        (tmp_path / "my-project" / "launch.pid").write_text(f"{process.pid}\n")
        stop = ["bash", "launch/tpu-vm.sh", "tpu", "zone", "stop"]
        assert emitted.run(project, *stop, PATH=path, HOME=str(tmp_path)) == (0, "")
    assert process.returncode == -signal.SIGTERM


QSUB = ["-l", "select=2:ngpus=8", "-l", "walltime=01:00:00", "--", "--workdir", "a b"]


def test_pbs_sh_submits_itself(project, fake):
    path = fake("qsub", 'printf "<%s>" "$@"')
    code, out = emitted.run(project, "bash", "launch/pbs.sh", *QSUB, PATH=path)
    assert code == 0
    assert out.startswith("<-N><my-project><-V><-r><y><-j><oe><-l><select=2:ngpus=8><-l>")
    job = "".join(f"<{word}>" for word in [project / "launch" / "pbs.sh", *QSUB])
    assert out.endswith(f"/bash>{job}")
    for wrong in [
        [],
        ["-l", "walltime=01:00:00"],
        ["--", "--workdir", "a"],
        ["-l", "walltime=00:02:00", "--", "a"],
    ]:
        assert emitted.run(project, "bash", "launch/pbs.sh", *wrong, PATH=path)[0] == 2


@pytest.mark.parametrize("code", [0, 75])
def test_pbs_sh_on_its_nodes(project, fake, tmp_path, code):
    (tmp_path / "nodes").write_text("b\na\nb\n")
    fake("ssh", SSH)
    fake("python", f'printf "<%s>" "$REDCO_PROCESS_INDEX" "$@"; echo; exit {code}')
    path = fake("qsub", "echo submitted")
    variables = {
        "PBS_JOBID": "7",
        "PBS_O_WORKDIR": str(project),
        "PBS_NODEFILE": f"{tmp_path}/nodes",
    }
    ended, out = emitted.run(project, "bash", "launch/pbs.sh", *QSUB, PATH=path, **variables)
    flags = "<-m><my_project.runtime.cluster.launch><-m><my_project.train><--workdir><a b>\n"
    assert ended == code
    assert f"[0] <0>{flags}" in out and f"[1] <1>{flags}" in out
    assert ("submitted\n" in out) == (code == 75)


@pytest.mark.parametrize("code", [0, 1, 2, 75])
def test_slurm_sbatch(project, fake, code):
    fake("scontrol", 'echo "scontrol $*"')
    path = fake("srun", f'printf "<%s>" "$@"; echo; exit {code}')
    start = ["bash", "launch/slurm.sbatch", "--workdir", "a b"]
    ended, out = emitted.run(project, *start, PATH=path, SLURM_JOB_ID="7")
    command = "<python><-u><-m><my_project.runtime.cluster.launch><-m><my_project.train><--workdir><a b>\n"
    assert ended == code
    assert out.partition("<--label>")[2] == command + "scontrol requeue 7\n" * (code == 75)


def test_launch_files_parse(project):
    for name in ("hosts.sh", "pbs.sh", "slurm.sbatch", "tpu-vm.sh"):
        assert emitted.run(project, "bash", "-n", f"launch/{name}") == (0, "")
    for name in ("ray.py", "xmanager.py"):
        py_compile.compile(str(project / "launch" / name), doraise=True)
