"""The machines that a step can be compiled for, and what their makers say of them.

Memory: what a driver reports for GPUs, what libtpu holds programs to for TPUs. Speeds are the
makers' peaks, dense; what a program reaches of them is compiled/roofline.py's affair.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

MB, GIB = 2**20, 2**30
# JAX takes three quarters of a GPU unless this variable says another share (docs.jax.dev, gpu_memory_allocation).
SHARE, SHARE_BY_DEFAULT = "XLA_PYTHON_CLIENT_MEM_FRACTION", 0.75


@dataclass(frozen=True)
class Parts:
    """What a GPU is built of.

    units: of float32 in a core (SM).  shared, block: bytes of shared memory, of a core and of a block at most.
    threads: of a core.  cores: SMs.  clock: GHz.  cache: bytes of L2.
    """

    capability: float
    units: int
    shared: int
    block: int
    threads: int
    cores: int = 0
    clock: float = 0.0
    cache: int = 0


@dataclass(frozen=True)
class Slice:
    """What libtpu calls a TPU: its topologies, and its chip_config_name (megacore: a chip is one device).

    side: rows and columns of one of its arrays of multipliers (cloud.google.com/tpu/docs, "System architecture" of each).
    """

    topology: str
    chip: str
    side: int = 128


# The share of the roofline's speed that steps reach. Of ten steps on an H100, .66 to .76
# (tests/tools/device/RESULTS.md); of other GPUs none was timed. Of TPUs what single programs reach, as Google publishes: products
# .90 of v6e's peak and .82 of 7x's, copies .83 and .87 (AI-Hypercomputer/tpu-recipes at c8cfe2f, microbenchmarks).
REACHED, REACHED_TPU = 0.72, 0.85

# What an SM reads of the L2 in a cycle, bytes, and adds there by atomic operations, numbers; REACHED is applied to them
# too. Of an H100 with it, 15 products of experts are .74 to 1.37 of what they took, and four sums of their rows .97 to 1.16
# (tests/tools/device/RESULTS.md).
READ, ADDED = 30.0, 0.6


@dataclass(frozen=True)
class Hardware:
    """A kind of device; of a chip with two JAX devices (TPU 7x), one of the two.

    name: as --hardware has it.  kind: as JAX has it.  platform: gpu or tpu.
    memory: bytes.  flops: of products a second, by the dtype that a program has for them.
    bandwidth: bytes a second of its memory.
    link: bytes a second to the other devices of its host (GPU) or along one axis of its slice (TPU), each way.
    host_link: bytes a second between two hosts, or two slices, each way; all devices of a host share it.
    per_host: devices of a host, as such hosts are mostly sold.
    parts: of a GPU, what its compiler wants to know besides; of a TPU, what libtpu calls it.
    """

    name: str
    kind: str
    platform: str
    memory: int
    flops: Mapping[str, float]
    bandwidth: float
    link: float
    host_link: float
    per_host: int
    parts: Parts | Slice

    @property
    def usable(self) -> int:
        """Bytes that JAX has for arrays; for GPUs by the share that a run would take, as the environment says."""
        if self.platform == "tpu":
            return self.memory
        return int(self.memory * float(os.environ.get(SHARE) or SHARE_BY_DEFAULT))

    def step_seconds(self, least: float) -> float:
        """Return the estimate of a step that needs `least` seconds by the roofline."""
        return least / (REACHED if self.platform == "gpu" else REACHED_TPU)

    def filled(self, features: int) -> float:
        """Return the share of a TPU's multipliers that work in products that sum over, or make, so few features; 1 of a GPU."""
        side = self.parts.side if isinstance(self.parts, Slice) else 1
        return min(features, side) / side if features else 1.0

    @property
    def cycles(self) -> float:
        """Cycles a second of all SMs of a GPU together; infinitely many of a TPU, which has none."""
        return (
            1e9 * self.parts.cores * self.parts.clock if isinstance(self.parts, Parts) else math.inf
        )

    @property
    def host_memory(self) -> float:
        """Bytes a second to a GPU from the memory of its host, or back, at most: PCIe x16 of its generation, by its data sheet."""
        generations = ((HOPPER, 64e9), (AMPERE, 32e9))
        return next((x for gpu, x in generations if self.capability >= gpu.capability), 16e9)

    @property
    def capability(self) -> float:
        """The compute capability of a GPU, such as 9.0; 0 of a TPU."""
        return self.parts.capability if isinstance(self.parts, Parts) else 0.0


def _gpu(
    name: str,
    kind: str,
    memory: int,
    bandwidth: float,
    flops: tuple[float, float],
    link: float,
    host_link: float,
    parts: Parts,
    per_host: int = 8,
) -> Hardware:
    """Return a GPU. flops: of bfloat16 and of float32, which is TF32 from Ampere on (XLA's default).

    From Ada on float8 is twice as fast as bfloat16, by the same data sheets.
    """
    speeds = dict(zip(("bfloat16", "float32"), flops, strict=True))
    if parts.capability >= ADA.capability:
        speeds["float8"] = 2 * flops[0]
    return Hardware(name, kind, "gpu", memory, speeds, bandwidth, link, host_link, per_host, parts)


def _tpu(
    name: str,
    kind: str,
    memory: float,
    flops: float,
    bandwidth: float,
    link: float,
    parts: Slice,
    per_host: int = 4,
    int8: bool = True,
) -> Hardware:
    """Return a TPU of `memory` GiB, whose products of float32 are of bfloat16 by default; int8: whether it has them at twice that.

    host_link: 6.25 GB/s a chip over the data centre's network (jax-ml.github.io/scaling-book, "How to think about TPUs").
    """
    speeds = dict.fromkeys(("bfloat16", "float32"), flops) | ({"int8": 2 * flops} if int8 else {})
    return Hardware(
        name, kind, "tpu", int(memory * GIB), speeds, bandwidth, link, 25e9, per_host, parts
    )


# Of the parts of NVIDIA's GPUs: for V100, A100, H200 and B200 the files of openxla/xla, target_config/specs;
# for the others the CUDA programming guide's table of compute capabilities, and the data sheets.
VOLTA = Parts(7.0, units=64, shared=98304, block=98304, threads=2048)
AMPERE = Parts(8.0, units=64, shared=167936, block=166912, threads=2048, clock=1.41, cache=40 * MB)
HOPPER = Parts(9.0, units=128, shared=233472, block=232448, threads=2048, clock=1.98)
BLACKWELL = replace(HOPPER, capability=10.0, clock=1.965)
ADA = Parts(8.9, units=128, shared=102400, block=101376, threads=1536, clock=2.52)
GA102 = replace(ADA, capability=8.6, clock=1.695)
TURING = Parts(7.5, units=64, shared=65536, block=65536, threads=1024, clock=1.545)
PASCAL = Parts(6.1, units=128, shared=98304, block=49152, threads=2048, clock=1.582)

# Speeds: NVIDIA's data sheets, without sparsity; NVLink each way; InfiniBand of a DGX (V100: 4 x EDR, A100: 8 x HDR, from
# H100 on 8 x NDR) or, for boards without, PCIe x16 each way and 100 Gb/s Ethernet, an assumption. Before Ampere no
# product of bfloat16 is computed as such: XLA makes it one of float32.
# Memory from l40s on: what torch.cuda.get_device_properties reports, in MiB.
A100 = ((312e12, 156e12), 300e9, 200e9, replace(AMPERE, cores=108))
H100 = ((989e12, 494.5e12), 450e9, 400e9, replace(HOPPER, cores=132, cache=50 * MB))
B200 = ((2250e12, 1125e12), 900e9, 400e9, replace(BLACKWELL, cores=148, cache=126 * MB))
V100 = ((15.7e12, 15.7e12), 150e9, 50e9, replace(VOLTA, cores=80, clock=1.53, cache=6 * MB))
L40S = ((362e12, 183e12), 32e9, 12.5e9, replace(ADA, cores=142, cache=96 * MB))
RTX_3090 = ((71e12, 35.6e12), 32e9, 12.5e9, replace(GA102, cores=82, cache=6 * MB))
RTX_4090 = ((165e12, 82.6e12), 32e9, 12.5e9, replace(ADA, cores=128, cache=72 * MB))
GTX_1080 = ((11.3e12, 11.3e12), 16e9, 12.5e9, replace(PASCAL, cores=28, cache=2816 * 1024))
RTX_2080 = ((13.4e12, 13.4e12), 16e9, 12.5e9, replace(TURING, cores=68, cache=5632 * 1024))
GPUS = (
    _gpu("v100", "Tesla V100-SXM2-16GB", 16935682048, 0.9e12, *V100),
    _gpu("a100-40g", "NVIDIA A100-SXM4-40GB", 42331013120, 1.555e12, *A100),
    _gpu("a100-80g", "NVIDIA A100-SXM4-80GB", 85100068864, 2.039e12, *A100),
    _gpu("h100", "NVIDIA H100 80GB HBM3", 84942979072, 3.35e12, *H100),
    _gpu("h200", "NVIDIA H200", 151397597184, 4.8e12, *H100),
    _gpu("b200", "NVIDIA B200", 191514411008, 7.7e12, *B200),
    _gpu("l40s", "NVIDIA L40S", 45589 * MB, 0.864e12, *L40S),
    _gpu("rtx-3090", "NVIDIA GeForce RTX 3090", 24268 * MB, 0.936e12, *RTX_3090, per_host=4),
    _gpu("rtx-4090", "NVIDIA GeForce RTX 4090", 24217 * MB, 1.008e12, *RTX_4090, per_host=4),
    _gpu("1080ti", "NVIDIA GeForce GTX 1080 Ti", 11172 * MB, 0.484e12, *GTX_1080, per_host=4),
    _gpu("2080ti", "NVIDIA GeForce RTX 2080 Ti", 11019 * MB, 0.616e12, *RTX_2080, per_host=4),
)
# Memory: what the compiler names as the limit in E1000 CompileTimeHbmOom. Speeds: cloud.google.com/tpu/docs, and the
# table of jax-ml.github.io/scaling-book; the link is one way of one axis. A device of 7x is half a chip.
TPUS = (
    _tpu("v4", "TPU v4", 30.75, 275e12, 1.2e12, 45e9, Slice("v4", "megacore"), int8=False),
    _tpu("v5e", "TPU v5 lite", 15.75, 197e12, 0.81e12, 45e9, Slice("v5e", "default")),
    _tpu("v5p", "TPU v5", 95.73, 459e12, 2.8e12, 90e9, Slice("v5", "megacore")),
    _tpu("v6e", "TPU v6 lite", 31.24, 918e12, 1.6e12, 90e9, Slice("v6e", "default", 256)),
    _tpu(
        *("7x", "TPU7x", 94.74, 1153.5e12, 3.69e12, 50e9, Slice("tpu7x", "default", 256)),
        per_host=8,
        int8=False,
    ),
)
HARDWARE: Mapping[str, Hardware] = {one.name: one for one in (*TPUS, *GPUS)}
