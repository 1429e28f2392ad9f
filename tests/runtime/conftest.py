"""Four virtual CPU devices, JAX at its strictest, and runs of several processes."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import jax
import linear
import numpy as np
import pytest
from jax.sharding import Mesh

from redco_runtime.layout.mesh import use_virtual_devices
from redco_runtime.run.record import Run

use_virtual_devices(4)
jax.config.update("jax_numpy_rank_promotion", "raise")

RUNTIME = Path(__file__).parents[2] / "runtime"


@pytest.fixture
def mesh() -> Mesh:
    """data 2 x model 2."""
    return Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))


@pytest.fixture(scope="session")
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """run(code, *args): the code in a Python of its own, with the runtime on its path."""

    def run(code: str, *args: object) -> subprocess.CompletedProcess[str]:
        env = os.environ | {"PYTHONPATH": str(RUNTIME), "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-W", "error", "-c", code, *map(str, args)]
        return subprocess.run(command, env=env, capture_output=True, text=True)

    return run


# An exception would otherwise wait for the other process in JAX's barrier at exit.
BOOT = """
import os, runpy, sys, traceback
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except BaseException:
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)
"""


@pytest.fixture(scope="session")
def run_processes(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """run(script, *args): two processes of `script PORT ID *args`, with two devices each."""

    def run(script: str, *args: object) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        path = f"{RUNTIME}{os.pathsep}{Path(__file__).parents[1]}"
        env = {"PYTHONPATH": path, "JAX_NUM_CPU_DEVICES": "2", "JAX_PLATFORMS": "cpu"}
        logs = [tmp_path_factory.mktemp("process") / "log" for _ in range(2)]
        running = []
        for process, log in enumerate(logs):
            command = [sys.executable, "-W", "error", "-c", BOOT, script, port, process, *args]
            with log.open("w") as out:
                running.append(
                    subprocess.Popen(
                        list(map(str, command)), env=os.environ | env, stdout=out, stderr=out
                    )
                )
        until = time.monotonic() + 60
        while any(process.poll() is None for process in running):
            if any(process.poll() for process in running) or time.monotonic() > until:
                break
            time.sleep(0.05)
        for process in running:
            process.kill()
        ends = [process.wait() for process in running]
        assert ends == [0, 0], "\n".join(log.read_text() for log in logs)

    return run


@pytest.fixture
def load_train(monkeypatch):
    """load_train(source): the emitted module, its project's other modules being those of this test."""

    def load(source=None):
        names = {
            "boot": None,
            "build": None,
            "PRESETS": {},
            "AXES": linear.MESH,
            "pipeline": linear.PIPELINE,
        }
        names["weights"] = None  # of a family: no test here reads a checkpoint of others
        package = {"": ["pipeline", "weights"], ".boot": ["boot"], ".config": ["PRESETS"]}
        for name, members in (package | {".sharding": ["AXES"], ".steps": ["build"]}).items():
            module = ModuleType(f"net{name}")
            vars(module).update({member: names[member] for member in members})
            monkeypatch.setitem(sys.modules, f"net{name}", module)
        module = ModuleType("net.train")
        exec(compile(source or linear.train_source(), "train.py", "exec"), vars(module))
        return module

    return load


@pytest.fixture
def emitted(load_train):
    """The emitted train.py of a project of a linear model."""
    return load_train()


@pytest.fixture(scope="module")
def steps():
    """Steps of a linear model; steps.traced counts how often the train step was traced."""
    with linear.make_steps() as made:
        yield made


@pytest.fixture
def run(emitted, steps):
    """run(workdir, init, **settings): a run of the linear model, with these fields of `Train`."""

    def run(workdir, init=None, **settings):
        config = linear.Config(train=linear.Train(**settings))
        emitted.train(steps, Run(workdir, config, linear.MESH, None, init))

    return run
