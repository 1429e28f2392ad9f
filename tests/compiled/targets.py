"""Four devices of a machine that is not here: their compilers alone are installed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh

ROOT = Path(__file__).resolve().parents[2]
DEVICES = 4
AXES = ("data", "fsdp", "model")
TARGETS = ("h100", "v5e")
# Nothing may be tried out on a device: no search among Triton's kernels, no timing of kernels.
UNTUNED = "--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=0"
# What the compiler asks of an H100 (SXM, 80 GB); the properties that its driver reports.
H100 = """
gpu_device_info {
  cuda_compute_capability { major: 9 }
  core_count: 132
  fpus_per_core: 128
  clock_rate_ghz: 1.98
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  registers_per_block_limit: 65536
  registers_per_core_limit: 65536
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  l2_cache_size: 52428800
  memory_bandwidth: 3352320000000
  device_memory_size: 84942979072
}
platform_name: "CUDA"
runtime_version { major: 12 minor: 8 }
dnn_version_info { major: 9 minor: 7 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""


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
    """The environment of a process that compiles for the targets models of real sizes."""
    path = os.pathsep.join(map(str, (folder(), ROOT / "tests", ROOT / "generator")))
    return os.environ | {
        "JAX_PLATFORMS": "cpu",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "TPU_SKIP_MDS_QUERY": "1",
        "XLA_FLAGS": UNTUNED,
        "PYTHONPATH": path,
        "REDCO_ZOO": "large",
    }


def devices_of(target: str, count: int = DEVICES) -> np.ndarray:
    """Return `count` devices of h100, of v5e (4 of them), or of v5p:2x2x2 (8)."""
    if target == "h100":
        topology = topologies.get_topology_desc(
            "h100", "cuda", topology=f"1x1x{count}", target_config=H100
        )
    else:
        topology = topologies.get_topology_desc(
            target if ":" in target else f"{target}:2x2",
            "tpu",
            chip_config_name="megacore" if target.startswith("v5p") else "default",
            chips_per_host_bounds=(2, 2, 1),
            num_slices=1,
        )
    return np.array(topology.devices)


def mesh_of(target: str) -> Mesh:
    """A mesh of four devices of `target`, (data 1, fsdp 1, model 4)."""
    devices = devices_of(target).reshape(1, 1, DEVICES)
    return Mesh(devices, AXES, axis_types=(AxisType.Auto,) * len(AXES))
