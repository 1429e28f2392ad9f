"""The emitted boot.py and launch files: who am I, what is refused, and real processes."""

import importlib.util
import inspect
import os
import py_compile
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jinja2
import pytest
import yaml

ROOT = Path(__file__).parents[1]
FILES = ["{{ package }}/boot.py", "tests/test_boot.py"] + [
    f"launch/{name}"
    for name in ("hosts.sh", "jobset.yaml", "slurm.sbatch", "tpu-vm.sh", "xmanager.py")
]
EXPLICIT = {"REDCO_COORDINATOR": "a:1", "REDCO_PROCESS_COUNT": "2", "REDCO_PROCESS_INDEX": "1"}
SLURM = {
    "SLURM_JOB_ID": "70001",
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "node[01-04]",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}
KUBERNETES = {
    "JOB_COMPLETION_INDEX": "0",
    "COORDINATOR_ADDRESS": "p-0.p:7000",
    "NUM_PROCESSES": "2",
}
TPU = {"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "10.0.0.1,10.0.0.2"}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with the rendered files and the runtime."""
    folder = tmp_path_factory.mktemp("my-project")
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ROOT / "templates" / "project"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = {"project": "my-project", "package": "my_project"}
    for name in FILES:
        file = folder / name.replace("{{ package }}", "my_project")
        file.parent.mkdir(exist_ok=True)
        file.write_text(templates.get_template(f"{name}.jinja").render(names))
    shutil.copytree(ROOT / "runtime" / "redco_runtime", folder / "redco_runtime")
    return folder


@pytest.fixture(scope="module")
def boot(project):
    """The module my_project.boot."""
    spec = importlib.util.spec_from_file_location(
        "emitted_boot", project / "my_project" / "boot.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def environ(monkeypatch):
    """Sets variables, for which it returns a function, in an environment without a launcher."""
    for name in list(os.environ):
        if re.match("REDCO_|SLURM_|OMPI_|TPU_|JOB_|.*_proxy", name):
            monkeypatch.delenv(name)
    return lambda values: [monkeypatch.setenv(name, value) for name, value in values.items()]


@pytest.mark.parametrize(
    ("env", "process"),
    [
        ({}, (0, 1, "", "single")),
        (EXPLICIT, (1, 2, "a:1", "explicit")),
        (EXPLICIT | SLURM, (1, 2, "a:1", "explicit")),
        (EXPLICIT | {"REDCO_COORDINATOR": "[::1]:1"}, (1, 2, "[::1]:1", "explicit")),
        (dict.fromkeys(EXPLICIT, ""), (0, 1, "", "single")),
        (SLURM, (3, 4, f"node01:{61440 + 70001 % 4096}", "slurm")),
        (SLURM | {"REDCO_COORDINATOR": "b:2"}, (3, 4, "b:2", "slurm")),
        (SLURM | {"SLURM_STEP_NUM_TASKS": "1"}, (0, 1, "", "single")),
        (SLURM | {"SLURM_STEP_ID": "", "SLURM_STEP_NODELIST": ""}, (0, 1, "", "single")),
        (OPEN_MPI | {"PMIX_NAMESPACE": "7"}, (1, 4, "localhost:61447", "openmpi")),
        (OPEN_MPI | SLURM, (1, 4, "localhost:61440", "openmpi")),
        (
            OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "REDCO_COORDINATOR": "a:1"},
            (1, 4, "a:1", "openmpi"),
        ),
        (OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "1"}, (0, 1, "", "single")),
        (KUBERNETES, (0, 2, "p-0.p:7000", "kubernetes")),
        ({"JOB_COMPLETION_INDEX": "5"}, (0, 1, "", "single")),
        (TPU, (1, 2, "10.0.0.1:8482", "tpu")),
        (TPU | {"TPU_WORKER_HOSTNAMES": "localhost"}, (0, 1, "", "single")),
    ],
)
def test_who_am_i(boot, env, process):
    assert boot.who_am_i(env) == boot.Process(*process)


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("gpu3", "gpu3"),
        ("gpu-a,gpu-b", "gpu-a"),
        ("node[01-04,7]", "node01"),
        ("node[7,9-12],gpu[1-2]", "node7"),
        ("gpu3,node[7,9]", "gpu3"),
        ("rack[1-2]node[05-06].site", "rack1node05.site"),
    ],
)
def test_first_host_of_slurm(boot, nodes, first):
    process = boot.who_am_i(SLURM | {"SLURM_STEP_NODELIST": "", "SLURM_JOB_NODELIST": nodes})
    assert process.coordinator.split(":")[0] == first


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"REDCO_COORDINATOR": "a:1"}, "REDCO_COORDINATOR needs REDCO_PROCESS_COUNT"),
        (EXPLICIT | {"REDCO_PROCESS_INDEX": ""}, "REDCO_PROCESS_INDEX='', REDCO_PROCESS_COUNT='2'"),
        (EXPLICIT | {"REDCO_PROCESS_COUNT": "two"}, "REDCO_PROCESS_COUNT='two': not a process"),
        (EXPLICIT | {"REDCO_PROCESS_INDEX": "2"}, "REDCO_PROCESS_INDEX='2'.*an index from 0"),
        (EXPLICIT | {"REDCO_PROCESS_INDEX": "-1"}, "REDCO_PROCESS_INDEX='-1'"),
        (EXPLICIT | {"REDCO_COORDINATOR": ""}, "process 0 is '' .explicit.*Set REDCO_COORDINATOR"),
        (EXPLICIT | {"REDCO_COORDINATOR": "a"}, "'a' .explicit., which is not host:port"),
        (EXPLICIT | {"REDCO_COORDINATOR": "a:70000"}, "'a:70000'"),
        (OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "openmpi.*Set REDCO_COORDINATOR"),
        (SLURM | {"SLURM_PROCID": ""}, "SLURM_PROCID=''"),
        (KUBERNETES | {"NUM_PROCESSES": ""}, "NUM_PROCESSES=''"),
        (KUBERNETES | {"COORDINATOR_ADDRESS": ""}, "kubernetes.*Set REDCO_COORDINATOR"),
        (TPU | {"TPU_WORKER_ID": "2"}, "TPU_WORKER_ID='2'"),
        (TPU | {"MEGASCALE_NUM_SLICES": "2"}, "several TPU slices"),
    ],
)
def test_who_am_i_refuses(boot, env, message):
    with pytest.raises(boot.BootError, match=message):
        boot.who_am_i(env)


def test_single_process(boot, environ, monkeypatch):
    environ({})
    assert boot.boot().launcher == "single"
    monkeypatch.setattr(jax, "process_count", lambda: 4)
    with pytest.raises(boot.BootError, match="JAX sees 4 processes, and not 1"):
        boot.boot()


def test_timeout_that_is_no_number(boot, environ):
    environ(EXPLICIT | {"REDCO_BOOT_TIMEOUT": "soon"})
    with pytest.raises(boot.BootError, match="REDCO_BOOT_TIMEOUT='soon'"):
        boot.boot()


def test_initialize_bypasses_the_proxy(boot, environ, monkeypatch):
    environ({"http_proxy": "http://proxy:3128", "no_proxy": "internal"})
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    signature, calls = inspect.signature(jax.distributed.initialize), []
    monkeypatch.setattr(
        jax.distributed, "initialize", lambda *args, **kw: calls.append(signature.bind(*args, **kw))
    )
    boot._connect(boot.Process(1, 2, "[::1]:7000", "explicit"))
    assert os.environ["no_proxy"] == "internal,::1"
    assert calls[0].arguments == {
        "coordinator_address": "[::1]:7000",
        "num_processes": 2,
        "process_id": 1,
        "cluster_detection_method": "deactivate",
        "initialization_timeout": 60,
        "heartbeat_timeout_seconds": 30,
        "shutdown_timeout_seconds": 60,
    }


PROGRAM = """
import sys, time
import jax
from my_project.boot import boot

process = boot(virtual_devices=1)
print("BOOTED", process.index, jax.process_count(), flush=True)
if process.index == 1 and "raise" in sys.argv:
    raise ValueError("a bug")
time.sleep(600 if "sleep" in sys.argv else 0)
"""


def run(project, *command, **env):
    """(exit code, output, both streams together) of a command in the project's folder."""
    done = subprocess.run(
        command,
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project)} | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout


def test_exception_and_kill_end_the_run(project, environ):
    environ(EXPLICIT | {"REDCO_PROCESS_COUNT": "3", "PYTHONPATH": str(project)})
    environ({"REDCO_COORDINATOR": f"localhost:{random.randrange(61440, 65536)}"})
    processes = []
    for index in range(3):
        environ({"REDCO_PROCESS_INDEX": str(index)})
        command = [sys.executable, "-c", PROGRAM, "raise", "sleep"]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    try:
        outputs = [process.stdout.readline() for process in processes]
        assert outputs == [f"BOOTED {index} 3\n" for index in range(3)]
        out, _ = processes[1].communicate(timeout=10)
        assert processes[1].returncode == 1
        assert out.startswith("boot: process 1 of 3 failed:\nTraceback")
        assert out.endswith("ValueError: a bug\n")
        processes[0].kill()
        out, _ = processes[2].communicate(timeout=20)
        assert processes[2].returncode not in (0, None)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_hosts_sh_boots_processes_behind_a_proxy(project, environ):
    environ({"http_proxy": "http://127.0.0.1:9"})
    code, out = run(project, "bash", "launch/hosts.sh", "--", sys.executable, "-c", PROGRAM)
    assert code == 0, out
    assert "[0] BOOTED 0 2\n" in out and "[1] BOOTED 1 2\n" in out


def test_hosts_sh_stops_all_when_one_fails(project, environ):
    environ({})
    command = 'echo "$$"; [ "$REDCO_PROCESS_INDEX" = 0 ] || { sleep 0.5; exit 7; }; exec sleep 600'
    code, out = run(project, "bash", "launch/hosts.sh", "--", "bash", "-c", command)
    assert code == 7
    assert "hosts.sh: process 1 on localhost ended with 7; stopping the others\n" in out
    (pid,) = re.findall(r"^\[0\] (\d+)$", out, re.MULTILINE)
    assert not Path("/proc", pid).exists()


def test_hosts_sh_over_ssh(project, environ, tmp_path):
    environ({"PATH": f"{fake(tmp_path, 'ssh', 'echo to $4; bash -c $5')}:{os.environ['PATH']}"})
    command = 'echo "$PWD $REDCO_COORDINATOR $REDCO_PROCESS_INDEX of $REDCO_PROCESS_COUNT $*"'
    code, out = run(project, "bash", "launch/hosts.sh", "me@a", "b", "--", "bash", "-c", command, "x", "1 2", "'")
    assert code == 0, out
    assert re.search(rf"\[0\] to me@a\n(.|\n)*\[0\] {project} a:6\d\d\d\d 0 of 2 1 2 '\n", out)
    assert re.search(rf"\[1\] to b\n(.|\n)*\[1\] {project} a:6\d\d\d\d 1 of 2 1 2 '\n", out)


def fake(folder, name, script):
    """A program of that name in `folder`; returns the folder, for PATH."""
    (folder / name).write_text(f"#!/bin/bash\nset -f; IFS=\n{script}\n")
    (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("arguments", [[], ["--"], ["a"], ["a", "--"], ["localhost", "a", "--", "x"]])
def test_hosts_sh_refuses(project, arguments):
    code, out = run(project, "bash", "launch/hosts.sh", *arguments)
    assert (code, out.count("\n")) == (2, 1)
    assert out.startswith("hosts.sh: ")


def test_tpu_vm_sh(project, environ, tmp_path):
    fake(tmp_path, "gcloud", 'WORKER=0 bash -c "${!#}"; WORKER=1 bash -c "${!#}"')
    ends = "a:0:10.0.0.1,b:1:10.0.0.2"
    fake(tmp_path, "curl", f'[[ ${{!#}} == */agent-worker-number ]] && echo $WORKER || echo {ends}')
    home = project.parent
    project.rename(home / "my-project")
    environ({"HOME": str(home), "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    ...


def test_slurm_sbatch(project, environ, tmp_path):
    environ({"PATH": f"{fake(tmp_path, 'srun', 'echo $#; echo $*')}:{os.environ['PATH']}"})
    code, out = run(project, "bash", "launch/slurm.sbatch", "--workdir", "a b")
    assert (code, ...)


def test_jobset_yaml(project, boot):
    service, job = yaml.safe_load_all((project / "launch" / "jobset.yaml").read_text())
    spec = job["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    env = {variable["name"]: variable["value"] for variable in container["env"]}
    processes = [
        boot.who_am_i(env | {"JOB_COMPLETION_INDEX": str(index)}) for index in range(spec["completions"])
    ]
    pod, _, domain = processes[0].coordinator.split(":")[0].partition(".")
    assert pod == f"{job['metadata']['name']}-0"
    assert domain == service["metadata"]["name"] == spec["template"]["spec"]["subdomain"]
    assert spec["parallelism"] == processes[0].count == len(processes)


def test_launch_files_parse(project):
    for name in ("hosts.sh", "slurm.sbatch", "tpu-vm.sh"):
        assert run(project, "bash", "-n", f"launch/{name}") == (0, "")
    py_compile.compile(str(project / "launch" / "xmanager.py"), doraise=True)


def test_emitted_test_passes(project, environ):
    environ({})
    code, out = run(project, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert code == 0, out
