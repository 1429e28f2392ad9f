"""The emitted boot.py: who am I, what is refused, and real processes that end."""

import inspect
import os
import random
import sys
from subprocess import PIPE, Popen

import emitted
import jax
import pytest

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
    return emitted.write_project(tmp_path_factory.mktemp("boot"))


@pytest.fixture(scope="module")
def boot(project):
    return emitted.load_boot(project)


@pytest.fixture
def environ(monkeypatch, project):
    """The environment that boot.py reads, without any launcher."""
    environ = emitted.clean_environ(project)
    monkeypatch.setattr(os, "environ", environ)
    return environ


@pytest.mark.parametrize(
    ("env", "process"),
    [
        ({}, (0, 1, "", "single")),
        (EXPLICIT, (1, 2, "a:1", "explicit")),
        (EXPLICIT | SLURM, (1, 2, "a:1", "explicit")),
        (EXPLICIT | {"REDCO_COORDINATOR": "[::1]:1"}, (1, 2, "[::1]:1", "explicit")),
        (dict.fromkeys(EXPLICIT, ""), (0, 1, "", "single")),
        ({"REDCO_PROCESS_COUNT": "1"}, (0, 1, "", "single")),
        (SLURM | {"REDCO_PROCESS_COUNT": "1"}, (0, 1, "", "single")),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1, "", "single")),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "REDCO_PROCESS_COUNT": "1"}, (0, 1, "", "single")),
        ({"SM_HOSTS": '["algo-1"]'}, (0, 1, "", "single")),
        (SLURM, (3, 4, f"node01:{61440 + 70001 % 4096}", "slurm")),
        (SLURM | {"REDCO_COORDINATOR": "b:2"}, (3, 4, "b:2", "slurm")),
        (SLURM | {"SLURM_STEP_NUM_TASKS": "1"}, (0, 1, "", "single")),
        (SLURM | {"SLURM_STEP_ID": "", "SLURM_STEP_NODELIST": ""}, (0, 1, "", "single")),
        (OPEN_MPI | {"PMIX_NAMESPACE": "223281153"}, (1, 4, "localhost:61719", "openmpi")),
        (OPEN_MPI | SLURM, (1, 4, "localhost:61440", "openmpi")),
        (
            OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "REDCO_COORDINATOR": "a:1"},
            (1, 4, "a:1", "openmpi"),
        ),
        (OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "1"}, (0, 1, "", "single")),
        (KUBERNETES, (0, 2, "p-0.p:7000", "kubernetes")),
        ({"JOB_COMPLETION_INDEX": "0"}, (0, 1, "", "single")),
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
        (
            {"REDCO_COORDINATOR": "a:1"},
            "REDCO_COORDINATOR alone says not which process.*REDCO_PROCESS_COUNT=1 says",
        ),
        (EXPLICIT | {"REDCO_PROCESS_INDEX": ""}, "REDCO_PROCESS_INDEX='', REDCO_PROCESS_COUNT='2'"),
        (EXPLICIT | {"REDCO_PROCESS_COUNT": "two"}, "REDCO_PROCESS_COUNT='two': not a process"),
        (EXPLICIT | {"REDCO_PROCESS_INDEX": "2"}, "REDCO_PROCESS_INDEX='2'.*an index from 0"),
        (EXPLICIT | {"REDCO_PROCESS_INDEX": "-1"}, "REDCO_PROCESS_INDEX='-1'"),
        (
            EXPLICIT | OPEN_MPI | {"REDCO_COORDINATOR": ""},
            "process 0 is '' .explicit.*Set REDCO_COORDINATOR",
        ),
        (EXPLICIT | {"REDCO_COORDINATOR": "a"}, "'a' .explicit., which is not host:port"),
        (EXPLICIT | {"REDCO_COORDINATOR": "a:70000"}, "'a:70000'"),
        (OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "openmpi.*Set REDCO_COORDINATOR"),
        (SLURM | {"SLURM_PROCID": ""}, "SLURM_PROCID=''"),
        (KUBERNETES | {"NUM_PROCESSES": ""}, "NUM_PROCESSES=''"),
        (KUBERNETES | {"COORDINATOR_ADDRESS": ""}, "kubernetes.*Set REDCO_COORDINATOR"),
        (TPU | {"TPU_WORKER_ID": "2"}, "TPU_WORKER_ID='2'"),
        (TPU | {"MEGASCALE_NUM_SLICES": "2"}, "several TPU slices"),
        (
            {"RANK": "0", "WORLD_SIZE": "2"},
            "RANK=0 WORLD_SIZE=2: torchrun .*REDCO_PROCESS_COUNT=1 s",
        ),
        ({"SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "4"}, "SkyPilot starts several"),
        ({"JAX_PROCESS_ID": "0", "JAX_NUM_PROCESSES": "2"}, "Kubeflow Trainer starts several"),
        ({"PROCESS_ID": "1", "NUM_PROCESSES": "2"}, "Kubeflow's JAXJob starts several"),
        ({"JOB_COMPLETION_INDEX": "5"}, "JOB_COMPLETION_INDEX=5: Kubernetes starts several"),
        ({"DSTACK_NODE_RANK": "0", "DSTACK_NODES_NUM": "2"}, "dstack starts several"),
        ({"PMI_RANK": "1"}, "PMI_RANK=1: MPICH or Intel MPI starts several"),
        ({"PALS_RANKID": "0", "PALS_SIZE": "8"}, "PALS starts several"),
        ({"JSM_NAMESPACE_RANK": "0", "JSM_NAMESPACE_SIZE": "2"}, "LSF starts several"),
        ({"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "2"}, "Flux starts several"),
        ({"AWS_BATCH_JOB_NUM_NODES": "2"}, "AWS Batch starts several"),
        ({"SM_HOSTS": '["algo-1","algo-2"]'}, "SageMaker starts several"),
    ],
)
def test_who_am_i_refuses(boot, env, message):
    with pytest.raises(boot.BootError, match=message):
        boot.who_am_i(env)


def test_single_process(boot, environ, monkeypatch):
    assert boot.boot().launcher == "single"
    monkeypatch.setattr(jax, "process_count", lambda: 4)
    with pytest.raises(boot.BootError, match="JAX sees 4 processes, and not 1"):
        boot.boot()


def test_timeout_that_is_no_number(boot, environ):
    environ |= EXPLICIT | {"REDCO_BOOT_TIMEOUT": "soon"}
    with pytest.raises(boot.BootError, match="REDCO_BOOT_TIMEOUT='soon'"):
        boot.boot()


def test_initialize_bypasses_the_proxy(boot, environ, monkeypatch):
    environ |= {"http_proxy": "http://proxy:3128", "no_proxy": "internal"}
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    bind, calls = inspect.signature(jax.distributed.initialize).bind, []
    monkeypatch.setattr(
        jax.distributed, "initialize", lambda *args, **named: calls.append(bind(*args, **named))
    )
    boot._connect(boot.Process(1, 2, "[::1]:7000", "explicit"))
    assert environ["no_proxy"] == "internal,::1"
    assert calls[0].arguments == {
        "coordinator_address": "[::1]:7000",
        "num_processes": 2,
        "process_id": 1,
        "cluster_detection_method": "deactivate",
        "initialization_timeout": 60,
        "heartbeat_timeout_seconds": 120,
        "shutdown_timeout_seconds": 60,
    }


@pytest.mark.parametrize("connect", [False, True])
def test_arrays_before_boot_are_refused(connect, boot, environ, monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    jax.devices()  # as an array at the top of pipeline.py does
    with pytest.raises(boot.BootError, match="inside of a function, or with numpy"):
        if connect:
            boot._connect(boot.Process(1, 2, "localhost:1", "explicit"))
        else:
            boot.boot(virtual_devices=jax.config.jax_num_cpu_devices + 1)


PROGRAM = """
import time
from my_project.boot import boot

process = boot(virtual_devices=1)
print("BOOTED", process.index, flush=True)
if process.index == 1:
    raise ValueError("a bug")
time.sleep(600)
"""


def test_exception_and_kill_end_the_run(project):
    coordinator = f"localhost:{random.randrange(61440, 65536)}"
    processes = []
    for index in range(3):
        here = {"REDCO_COORDINATOR": coordinator, "REDCO_PROCESS_INDEX": str(index)}
        env = emitted.clean_environ(project, REDCO_PROCESS_COUNT="3", **here)
        command = [sys.executable, "-c", PROGRAM]
        processes.append(Popen(command, env=env, stdout=PIPE, stderr=PIPE, text=True))
    try:
        for index, process in enumerate(processes):
            assert process.stdout.readline() == f"BOOTED {index}\n"
        err = processes[1].communicate(timeout=10)[1]
        assert processes[1].returncode == 1
        assert "boot: process 1 of 3 failed:\nTraceback" in err and "ValueError: a bug" in err
        processes[0].kill()
        assert processes[2].wait(timeout=20) != 0
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_emitted_test_passes(project):
    code, out = emitted.run(
        project, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests"
    )
    assert code == 0, out
    assert "2 passed" in out
