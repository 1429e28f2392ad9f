"""Where the compilers of machines that are not here are installed, and the environment that uses them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from redco_new.errors import RedcoError

import redco_fit

FOLDER = "REDCO_COMPILERS"
DEFAULT_FOLDER = "~/.cache/redco/compilers"
TITLES = {"gpu": "XLA's compiler for GPUs", "tpu": "XLA's compiler for TPUs"}
# Nothing may be tried out on a device: no search among Triton's kernels, no timing of kernels.
UNTUNED = "--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=0"


def environment(platform: str, installed: Iterable[str] | None = None) -> dict[str, str]:
    """Return the environment of a process that compiles for gpu or tpu.

    installed: the folders of packages of this one; by default, Python's own.
    Raises RedcoError where the compiler is not installed, or does not go with the JAX at hand.
    """
    folder = Path(os.environ.get(FOLDER) or os.path.expanduser(DEFAULT_FOLDER))
    places = [str(folder), *filter(None, sys.path if installed is None else installed)]
    if not _has_compiler(platform, places):
        what = f"{TITLES[platform]} is not installed"
        raise RedcoError("--hardware", what, _how_to_install(platform))
    _check_versions(platform, places)
    sources = str(Path(redco_fit.__file__).parents[1])
    path = [str(folder), sources, os.environ.get("PYTHONPATH", "")]
    # Those at hand are for the devices here. libtpu, which has its own in LIBTPU_INIT_ARGS, ends at one that it does not know.
    flags = f"{UNTUNED} {os.environ.get('XLA_FLAGS', '')}".strip() if platform == "gpu" else ""
    return os.environ | {
        "JAX_PLATFORMS": "cpu",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "TPU_SKIP_MDS_QUERY": "1",  # else libtpu looks for a metadata server, for minutes
        "XLA_FLAGS": flags,
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",  # what it prints before it dies is seen
    }


def _has_compiler(platform: str, places: Iterable[str]) -> bool:
    """Tell whether a folder of `places` has what a platform needs; ptxas may be the system's."""
    if platform == "tpu":
        return _any("libtpu/libtpu.so", places)
    ptxas = any(_any(f"nvidia/{name}/bin/ptxas", places) for name in ("cuda_nvcc", "cu13"))
    return _any("jax_plugins/xla_cuda*", places) and (ptxas or shutil.which("ptxas") is not None)


def _any(pattern: str, places: Iterable[str]) -> bool:
    return any(next(Path(place).glob(pattern), None) for place in places)


def _check_versions(platform: str, places: list[str]) -> None:
    """Raise RedcoError where JAX's plugin for GPUs is not of the version of JAX, which it must be."""
    if platform != "gpu":
        return
    plugins = {
        one.name: one.version
        for one in metadata.distributions(path=places)
        if one.name in ("jax-cuda12-plugin", "jax-cuda13-plugin")
    }
    if plugins and metadata.version("jax") not in plugins.values():
        name, version = next(iter(plugins.items()))
        what = f"{name} {version} does not go with JAX {metadata.version('jax')}"
        raise RedcoError("--hardware", what, _how_to_install(platform))


def _how_to_install(platform: str) -> str:
    """Return the commands that install a compiler: apart from what trains on a CPU, or with redco."""
    jax = metadata.version("jax")
    packages = {
        "tpu": "libtpu",
        "gpu": f"jax-cuda12-plugin=={jax} jax-cuda12-pjrt=={jax} nvidia-cuda-nvcc-cu12",
    }
    return (
        f"pip install --no-deps --target {DEFAULT_FOLDER} {packages[platform]}; {FOLDER} names another folder; "
        "or, where only redco runs, pip install 'redco-new[fit]': beside JAX in training they are devices that it looks for"
    )
