"""The collectives that one run of a compiled program makes, read from its text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

KINDS = {
    "all-reduce": "AR",
    "all-gather": "AG",
    "reduce-scatter": "RS",
    "all-to-all": "A2A",
    "collective-permute": "CP",
}
HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
OPERAND = re.compile(r"%([\w.\-]+)")
INSTRUCTION = re.compile(r"^ +(?:ROOT )?%?([\w.\-]+) = (.*?) ([a-z][\w\-]*)\((.*)")
ARRAY = re.compile(r"\b(?:pred|[a-z]+(\d+)\w*)\[([\d,]*)\]")
CALLEE = re.compile(r"\b(?:body|calls|to_apply|true_computation|false_computation)=%?([\w.\-]+)")
BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
CONDITION = re.compile(r"\bcondition=%?([\w.\-]+)")
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
BOUND = re.compile(r" = s32\[\]\S* constant\((\d+)\)")
CHANNEL = re.compile(r"\bchannel_id=(\d+)")
GROUPS = re.compile(r"\b(?:replica_groups|source_target_pairs)=\{\{([\d,]+)\}")
# [groups,devices of each]<=[shape of all of them]T(its dims in another order)
ORDERED = re.compile(r"\breplica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
# mesh['axis'=its devices, ...], device_ids=([shape]T(its dims in another order)) {axes of a group}
MESH = re.compile(
    r"\breplica_groups=mesh\[([^\]]*)\](?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))? \{([^}]*)\}"
)
SOURCE = re.compile(r'op_name="([^"]*)"')
FRAME = re.compile(r"\bstack_frame_id=(\d+)")
# libtpu's name for a reduce-scatter that it has fused; the text inside says all-reduce.
SCATTER = "all-reduce-scatter"


@dataclass(frozen=True)
class Collective:
    """One collective operation of a program on n devices.

    bytes: of the array that it reduces or puts together; for all-to-all and collective-permute,
    of one device's part.  runs: how often one run of the program makes it.  source: the operation
    of the model that it serves, as far as the compiler has kept it.  channel: its number, "" for
    the end of an asynchronous pair.  group: the devices of the first group that exchange something,
    by their place in the mesh; of a collective-permute one that sends and one that receives; () for all.
    fused: whether it is part of what a fusion computes.  type: of its result, as text.
    frame: the number of the lines that it is for (places.py); "" where the compiler has not kept it.
    """

    kind: str
    bytes: int
    runs: int = 1
    source: str = ""
    channel: str = ""
    group: tuple[int, ...] = ()
    fused: bool = False
    type: str = field(default="", compare=False)
    frame: str = field(default="", compare=False)

    def sent(self, n: int) -> float:
        """Return the bytes that each device sends in all runs, on a ring of its group, or of n."""
        n = len(self.group) or n
        share = {"all-reduce": 2 * (n - 1) / n, "collective-permute": 1}
        return self.runs * self.bytes * share.get(self.kind, (n - 1) / n)


def collectives(hlo: str, n: int) -> list[Collective]:
    """Return what a program of n devices runs, from the entry on.

    A loop counts as often as it runs, one whose length is not known in advance once; of the
    branches of a condition, the one that sends most. An asynchronous pair counts once, and so does
    an operation on several arrays, with the bytes of all of them.
    """
    computations, entry = split(hlo)
    every: dict[str | int, Collective] = {}
    for one in walk(entry, computations, n):
        # libtpu writes an asynchronous all-gather into each fusion that computes meanwhile. What stands alone
        # is one by itself, though gathers of one shard_map have one channel.
        every.setdefault((one.fused and one.channel) or len(every), one)
    return list(every.values())


def split(hlo: str) -> tuple[dict[str, list[str]], str]:
    """Return {name: lines} of the computations of a program, and the name of the entry."""
    computations: dict[str, list[str]] = {}
    entry = name = ""
    for line in hlo.splitlines():
        if head := HEAD.match(line):
            name = head[2]
            computations[name] = []
            entry = name if head[1] else entry
        elif name:
            computations[name].append(line)
    return computations, entry


def walk(name: str, computations: dict[str, list[str]], n: int) -> Iterator[Collective]:
    """Yield the collectives of a computation and of all that it runs."""
    starts: dict[str, str] = {}
    for line in computations[name]:
        match = INSTRUCTION.match(line)
        if not match:
            continue
        own, type_, operation, rest = match.groups()
        if operation.endswith("-start"):
            starts[own] = rest
        if (kind := operation.removesuffix("-done")) in KINDS:
            yield made_by(kind, name, type_, rest, n, starts)
        elif not operation.endswith(("-done", "-update")):
            yield from called(operation, rest, computations, n)


def made_by(
    kind: str, computation: str, type_: str, rest: str, n: int, starts: Mapping[str, str]
) -> Collective:
    """Return the collective of an instruction, from its type and what stands behind its operation.

    starts: the same of those that begin one, by name: their ends do not say between whom it is.
    """
    channel, first = CHANNEL.search(rest), OPERAND.search(rest)
    begin = starts.get(first[1], "") if first else ""
    source, group = SOURCE.search(rest) or SOURCE.search(begin), first_group(rest + begin)
    frame = FRAME.search(rest) or FRAME.search(begin)
    return Collective(
        "reduce-scatter" if computation.startswith(SCATTER) else kind,
        size(type_) * ((len(group) or n) if kind == "reduce-scatter" else 1),
        source=source[1] if source else "",
        channel=channel[1] if channel else "",
        group=group,
        type=type_,
        frame=frame[1] if frame else "",
    )


def first_group(rest: str) -> tuple[int, ...]:
    """Return the devices of the first group of a collective; () where it does not say."""
    if match := GROUPS.search(rest):
        return tuple(_numbers(match[1]))
    if match := ORDERED.search(rest):
        return tuple(_devices(match[3], match[4]).reshape(-1, int(match[2]))[0].tolist())
    if match := MESH.search(rest):
        mesh = dict(re.findall(r"('\w+')=(\d+)", match[1]))
        shape, axes = [int(count) for count in mesh.values()], match[4].split(",")
        if not mesh.keys() >= {*axes}:  # a part of one
            return ()
        devices = _devices(match[2], match[3]) if match[2] else np.arange(prod(shape))
        within = (slice(None if axis in axes else 1) for axis in mesh)
        return tuple(devices.reshape(shape)[*within].ravel().tolist())
    return ()


def _devices(shape: str, order: str | None) -> np.ndarray:
    """Return the devices in an order: those by number in this shape, with its dims transposed so."""
    sizes = _numbers(shape)
    return np.arange(prod(sizes)).reshape(sizes).transpose(_numbers(order) if order else None)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def called(
    operation: str, rest: str, computations: dict[str, list[str]], n: int
) -> Iterator[Collective]:
    """Yield the collectives of the computations that an instruction runs."""
    names = CALLEE.findall(rest)
    for branches in BRANCHES.findall(rest):
        names += branches.replace("%", "").split(", ")
    inner = [list(walk(name, computations, n)) for name in names]
    if operation == "conditional":
        inner = [max(inner, key=lambda branch: sum(one.sent(n) for one in branch))]
    trips = trip_count(rest, computations) if operation == "while" else 1
    for one in sum(inner, []):
        yield replace(one, runs=one.runs * trips, fused=one.fused or operation == "fusion")


def trip_count(rest: str, computations: dict[str, list[str]]) -> int:
    """Return how often a loop runs: as XLA says, or the bound to which its condition compares; else 1."""
    if number := TRIPS.search(rest):
        return int(number[1])
    named = CONDITION.search(rest)
    condition = "\n".join(computations[named[1]]) if named else ""
    bounds = BOUND.findall(condition)
    return int(bounds[0]) if len(bounds) == 1 and "direction=LT" in condition else 1


def size(type_: str) -> int:
    """Return the bytes of an array, or of a tuple of arrays, from its type in the text."""
    return sum(
        int(bits or 8) // 8 * prod(int(dim) for dim in dims.split(",") if dim)
        for bits, dims in ARRAY.findall(type_)
    )
