"""Runs tests in a child of this process, which has imported what takes seconds to import."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

import pytest

SLOW_IMPORTS = ("jax", "numpy", "libcst", "hypothesis", "flax.nnx", "optax", "equinox", "haiku")
HANGS = 200  # seconds of one test; no quick one takes a twentieth of that on an idle machine
ENDLESS = 30  # seconds of the CPU of one test; one that takes ten is marked slow
SLACK = 20  # a busy machine takes so many times the CPU's seconds


def prepare(tree: Path) -> None:
    """Import what no mutant changes; before, what JAX reads as it is imported."""
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": str(tree / ".compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "PYTHONPATH": os.pathsep.join(str(tree / name) for name in ("generator", "runtime")),
    }
    for name in SLOW_IMPORTS:
        importlib.import_module(name)


class First:
    """Writes the test that runs, and so the one that fails, to a file, and when it began."""

    def __init__(self, at: Path) -> None:
        self._at = at

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._at.write_text(f"{nodeid}\n{time.process_time()}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._at.write_text(report.nodeid)


def run(tree: Path, tests: list[str], seconds: float) -> tuple[str, float]:
    """Return the first test that fails or hangs, "" where none does, and the CPU's seconds.

    Tests that take more than `seconds` of the CPU are ended, and have not failed, unless one alone took ENDLESS.
    """
    at = tree / ".running"
    at.write_text("")
    child = os.fork()
    if not child:
        _child(tree, tests, seconds, at)
    until = time.monotonic() + SLACK * seconds
    done, status, usage = os.wait4(child, os.WNOHANG)
    while not done and time.monotonic() < until:
        time.sleep(0.05)
        done, status, usage = os.wait4(child, os.WNOHANG)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if not done:
        _, status, usage = os.wait4(child, 0)
    spent = usage.ru_utime + usage.ru_stime
    over = not done or os.waitstatus_to_exitcode(status) in (-signal.SIGXCPU, -signal.SIGKILL)
    nothing = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    if not over and os.waitstatus_to_exitcode(status) in nothing:
        return "", spent
    test, _, began = at.read_text().partition("\n")
    if over:
        return (test if began and spent - float(began) > ENDLESS else ""), seconds
    return test or "the import of the tests", spent


def _child(tree: Path, tests: list[str], seconds: float, at: Path) -> None:
    """Run the tests, in a group of processes that ends with them."""
    os.setsid()
    os.chdir(tree)
    out = os.open(tree / ".said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    most = max(1, round(seconds))
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
    options = ["-x", "--tb=short", "-m", "not slow and not long", "-p", "no:cacheprovider"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    options += ["-o", f"faulthandler_timeout={HANGS}", "-o", "faulthandler_exit_on_timeout=true"]
    code = 1
    try:
        code = pytest.main([*options, *tests], plugins=[First(at)])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)
