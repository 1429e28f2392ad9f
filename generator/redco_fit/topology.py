"""The devices of a machine that is not here, as its compiler describes them. Runs in fit's child process."""

from __future__ import annotations

import numpy as np
from jax.experimental import topologies

from redco_fit.hardware import Hardware, Parts, Slice
from redco_fit.target import Target

# Of a device's memory, what XLA takes for its arrays where no device says it (GetSchedulerMemoryLimit of gpu_hlo_schedule.cc).
XLA_SHARE = 0.8
# What XLA asks of a GPU: the properties that its driver reports. Threads, blocks and registers are alike from Pascal on.
CONFIG = """
gpu_device_info {{
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  core_count: {p.cores}
  fpus_per_core: {p.units}
  clock_rate_ghz: {p.clock}
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: {p.threads}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  registers_per_block_limit: 65536
  registers_per_core_limit: 65536
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: {p.block}
  shared_memory_per_core: {p.shared}
  l2_cache_size: {p.cache}
  memory_bandwidth: {bandwidth}
  device_memory_size: {memory}
}}
platform_name: "CUDA"
runtime_version {{ major: 12 minor: 8 }}
dnn_version_info {{ major: 9 minor: 7 }}
device_description_str: "{kind}"
"""


def devices_of(target: Target) -> np.ndarray:
    """Return the devices of a target, one dim, in the order of hosts. Raises what the compiler raises."""
    hardware, parts = target.hardware, target.hardware.parts
    if isinstance(parts, Slice):
        single = target.devices == 1 or set(target.shape) == {1}
        topology = topologies.get_topology_desc(
            f"{parts.topology}:{'x'.join(map(str, target.shape))}",
            "tpu",
            chip_config_name=parts.chip,
            chips_per_host_bounds=(1, 1, 1) if single else (2, 2, 1),
            num_slices=1,
        )
    else:
        topology = topologies.get_topology_desc(
            hardware.name,
            "cuda",
            topology=f"1x{target.hosts}x{target.per_host}",
            target_config=describe_gpu(hardware, parts),
        )
    return np.array(topology.devices)


def describe_gpu(hardware: Hardware, parts: Parts) -> str:
    """Return a GPU as XLA's GpuTargetConfigProto, in text.

    Its memory is such that XLA's share of it is what a run has: XLA computes again what exceeds that.
    """
    major, minor = divmod(round(10 * parts.capability), 10)
    return CONFIG.format(
        p=parts,
        major=major,
        minor=minor,
        bandwidth=int(hardware.bandwidth),
        memory=int(hardware.usable / XLA_SHARE),
        kind=hardware.kind,
    )
