"""The seconds of a collective on a machine: by the links inside a host, and by those between hosts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from redco_new.fit.links import REACHED
from redco_new.fit.target import Target

TRIPS = {"all-reduce": 2}  # a reduce-scatter and an all-gather; the others travel once
DIRECTIONS = 2  # of one axis of a TPU's slice, which is a ring: half of the bytes go each way


def link_seconds(target: Target, kind: str, size: float, group: tuple[int, int]) -> float:
    """Return the seconds of a collective of `size` bytes: of the whole array that is gathered or reduced.

    group: its members in a host, and the hosts that they are in. What leaves a host goes by the share of
    the host's network that its members have, while other groups use the rest.
    """
    inside, hosts = group
    members, hardware, trips = inside * hosts, target.hardware, TRIPS.get(kind, 1)
    sent = trips * size * (members - 1) / members
    if hardware.platform == "tpu":
        return sent / (DIRECTIONS * hardware.link * REACHED)
    seconds = sent / (hardware.link * REACHED)
    if hosts > 1:
        network = hardware.host_link * REACHED * inside / target.per_host
        seconds = max(seconds, trips * size * (hosts - 1) / hosts / network)
    return seconds


def group_of(target: Target, mesh: Mapping[str, int], axes: Sequence[str]) -> tuple[int, int]:
    """Return how many members of a group of these axes are in a host, and in how many hosts they are.

    The devices of a mesh are in the order of its axes, the last the nearest.
    """
    inside = hosts = distance = 1
    for axis in reversed([*mesh]):
        if axis in axes:
            near = max(1, min(mesh[axis], target.per_host // distance))
            inside, hosts = inside * near, hosts * math.ceil(mesh[axis] / near)
        distance *= mesh[axis]
    return inside, hosts
