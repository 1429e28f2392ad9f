"""The seconds of a collective, by the links that it goes over."""

from __future__ import annotations

from collections.abc import Sequence

from redco_fit.compiled.hlo import Collective
from redco_fit.hardware import Hardware

# Of a link's peak, what NCCL's all-gathers reach on NVLink (nccl-tests on DGX H100: 360 of 450 GB/s).
REACHED = 0.8


def link_seconds(one: Collective, hardware: Hardware, hosts: Sequence[int]) -> float:
    """Return the seconds of a collective: over the links within hosts, and between them, the longer.

    hosts: of each device of the mesh. On a TPU an axis is a ring of the torus, sent both ways round.
    """
    sent = one.sent(len(hosts))
    near = sent / (hardware.link * REACHED)
    if hardware.platform == "tpu":
        return near / 2
    group = [hosts[i] for i in one.group] or list(hosts)
    if len({*group}) == 1:
        return near
    # A ring leaves a host once, by the network that all groups with devices there share.
    groups = hosts.count(group[0]) / group.count(group[0])
    return max(near, sent * groups / (hardware.host_link * REACHED))
