"""The seconds of a collective, by the links that it goes over: what it sends, and a latency for each hop.

No figure here is of a training step: tests/tools/tables/published.md compares those that were published.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from redco_fit.compiled.hlo import Collective
from redco_fit.target import Target

# Of a link's peak, what NCCL's all-gathers reach on NVLink (nccl-tests on DGX H100: 360 of 450 GB/s), and a sum over a pod of
# 16 x 16 v6e: 236 of its four links' 360 GB/s (AI-Hypercomputer/tpu-recipes at c8cfe2f, microbenchmarks/trillium/collectives).
REACHED, REACHED_TPU = 0.8, 0.65
MICRO = 1e-6


@dataclass(frozen=True)
class Way:
    """One of NCCL's ways to make a collective.

    tree: whether it is a tree of hosts, which all-reduces alone have, or a ring.
    share: of the bandwidth, that it reaches.  base: seconds of each collective.
    near, far: seconds of a hop over NVLink, and between hosts.
    """

    tree: bool
    share: float
    base: float
    near: float
    far: float


# What NCCL itself chooses by: src/graph/tuning.cc of NVIDIA/nccl at 5067397, for its protocols Simple and LL128. Its LL has
# half of the bandwidth and less, for what is smaller than a layer sends.
WAYS = (
    Way(False, 1.0, 8.4 * MICRO, 3.4 * MICRO, 14.0 * MICRO),
    Way(False, 0.92, 14.0 * MICRO, 1.9 * MICRO, 4.0 * MICRO),
    Way(True, 0.92, 8.4 * MICRO, 4.0 * MICRO, 14.0 * MICRO),
    Way(True, 0.86, 14.0 * MICRO, 1.25 * MICRO, 8.5 * MICRO),
)
# The same for GPUs without NVLink, which have no LL128.
PCI_WAYS = (
    Way(False, 1.0, 8.4 * MICRO, 5.7 * MICRO, 14.0 * MICRO),
    Way(True, 0.92, 8.4 * MICRO, 4.0 * MICRO, 14.0 * MICRO),
)
NVLINK = 1e11  # bytes a second: each has more, and PCIe less
POSTED = (
    1.0 * MICRO
)  # the same file: seconds to post one message to the network, of which an all-to-all has one a device
HOP = (
    1.0 * MICRO
)  # of a TPU's link: jax-ml/scaling-book at 0819a7d, sharding.md: "typically around 1us"
# Chips of a side from which on it is a ring, and not a line (cloud.google.com/tpu/docs: v5e and v6e in a whole pod alone).
RING = {"v5e": 16, "v6e": 16}
CUBE = 4  # of the others, whose cubes of 4 x 4 x 4 optical switches join


def link_seconds(
    one: Collective, target: Target, hosts: Sequence[int], messages: float | None = None
) -> float:
    """Return the seconds of all runs of a collective: over the links within hosts, and between them, the longer.

    hosts: of each device of the mesh.  messages: as how many collectives it is sent; by default, one each run.
    """
    ranks, runs = len(one.group) or len(hosts), one.runs if messages is None else messages
    if ranks == 1:
        return 0.0
    if target.hardware.platform == "tpu":
        return _torus_seconds(one, ranks, runs, target)
    hardware, sent = target.hardware, one.sent(len(hosts))
    near = sent / (hardware.link * REACHED)
    group = [hosts[i] for i in one.group] or list(hosts)
    nodes = len({*group})
    # A ring leaves a host once, by the network that all groups with devices there share.
    groups = hosts.count(group[0]) / group.count(group[0])
    far = sent * groups / (hardware.host_link * REACHED) if nodes > 1 else 0.0
    if one.kind in ("all-to-all", "collective-permute"):
        posted = POSTED * (ranks - 1 if one.kind == "all-to-all" else 1)
        return max(near, far) + runs * (WAYS[0].base + posted)
    ways = WAYS if hardware.link > NVLINK else PCI_WAYS
    return min(
        max(near, far) / way.share + runs * latency
        for way in ways
        if (latency := _latency(way, one.kind, ranks, nodes)) is not None
    )


def _latency(way: Way, kind: str, ranks: int, nodes: int) -> float | None:
    """Return the seconds of a collective that sends nothing; None where it cannot go that way."""
    twice = 2 if kind == "all-reduce" else 1
    if way.tree:
        hops = (ranks / nodes - 1) * way.near + math.log2(nodes) * way.far
        return way.base + twice * hops if kind == "all-reduce" else None
    return way.base + twice * ((ranks - nodes) * way.near + (nodes - 1) * way.far)


def _torus_seconds(one: Collective, ranks: int, runs: float, target: Target) -> float:
    """Return the seconds on a TPU: an axis is a side of the torus or several, each sent both ways round where it is a ring.

    A hop each for half of a ring, or the whole of a line; all sides send at once (scaling-book, sharding.md).
    """
    chip = target.devices // math.prod(target.shape)
    sides = _sides(ranks // chip if ranks % chip == 0 else ranks, target.shape)
    whole = RING.get(target.hardware.name, CUBE)
    rings = [side % whole == 0 for side in sides]
    ways = len(sides) * (2 if all(rings) else 1)
    hops = sum(n // 2 if ring else n - 1 for n, ring in zip(sides, rings, strict=True))
    twice = 2 if one.kind == "all-reduce" else 1
    sent = one.sent(ranks) / (target.hardware.link * REACHED_TPU * ways)
    return sent + runs * twice * hops * HOP


def _sides(ranks: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the fewest sides of a slice that have so many devices together; one ring of all where none have."""
    for count in range(1, len(shape) + 1):
        for some in itertools.combinations(shape, count):
            if math.prod(some) == ranks:
                return some
    return (ranks,)
