"""Four virtual CPU devices, JAX at its strictest, and runs of several processes."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)
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
