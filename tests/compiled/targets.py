"""Four devices of a machine that is not here: their compilers alone are installed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from jax.sharding import AxisType, Mesh
from redco_fit import compilers, compiling, topology
from redco_fit.target import Target, parse_target

ROOT = Path(__file__).resolve().parents[2]
DEVICES = 4
AXES = ("data", "fsdp", "model")
TARGETS = ("h100", "v5e")


def folder() -> Path:
    """Where the compilers, and Redco's wheel, are installed: $REDCO_COMPILERS or .compilers.

    Raises FileNotFoundError if they are not.
    """
    found = Path(os.environ.get("REDCO_COMPILERS", ROOT / ".compilers"))
    for name in ("libtpu", "jax_plugins/xla_cuda12", "nvidia/cuda_nvcc", "redco"):
        if not (found / name).is_dir():
            raise FileNotFoundError(f"no {name} in {found}: run `make compilers`")
    return found


def environment() -> dict[str, str]:
    """The environment of a process that compiles for the targets models of real sizes: as that of `redco fit`."""
    path = [str(folder()), *map(str, (ROOT / "tests", ROOT / "tests/tools", ROOT / "generator"))]
    return compilers.environment("gpu", path) | {
        "PYTHONPATH": os.pathsep.join(path),
        "REDCO_ZOO": "large",
        "XLA_FLAGS": compilers.UNTUNED,
    }


def use_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `redco fit` find the compilers, and compile nothing that a former run of the tests has compiled."""
    monkeypatch.setenv(compilers.FOLDER, str(folder()))
    monkeypatch.delenv("XLA_FLAGS", raising=False)  # of CPUs, which libtpu does not know
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"), prepend=os.pathsep)
    monkeypatch.setattr(compiling, "CHILD", "compiled.child")


def devices_of(target: str, count: int = DEVICES) -> np.ndarray:
    """Return `count` devices of h100, of v5e (4 of them), or of v5p:2x2x2 (8)."""
    return topology.devices_of(target_of(target, count))


def target_of(target: str, count: int = DEVICES) -> Target:
    """Return the machine whose devices `devices_of` gives."""
    return parse_target(target if ":" in target else f"{target}:{count}")


def mesh_of(target: str) -> Mesh:
    """A mesh of four devices of `target`, (data 1, fsdp 1, model 4)."""
    devices = devices_of(target).reshape(1, 1, DEVICES)
    return Mesh(devices, AXES, axis_types=(AxisType.Auto,) * len(AXES))
