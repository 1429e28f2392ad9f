"""The emitted boot.py: how it starts JAX, and real processes that end. Who they are: runtime/test_launchers.py."""

import inspect
import os
import random
import sys
from subprocess import PIPE, Popen

import emitted
import jax
import pytest

EXPLICIT = {"REDCO_COORDINATOR": "a:1", "REDCO_PROCESS_COUNT": "2", "REDCO_PROCESS_INDEX": "1"}


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
        "local_device_ids": None,
        "cluster_detection_method": "deactivate",
        "initialization_timeout": 300,
        "heartbeat_timeout_seconds": 180,
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
    run = {
        "WORLD_SIZE": "3",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(random.randrange(4096)),
    }
    processes = []
    for index in range(3):  # as torchrun starts them
        env = emitted.clean_environ(project, RANK=str(index), **run)
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
