"""The collectives that one run of a compiled program makes, read from its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

KINDS = {
    "all-reduce": "AR",
    "all-gather": "AG",
    "reduce-scatter": "RS",
    "all-to-all": "A2A",
    "collective-permute": "CP",
}
HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
INSTRUCTION = re.compile(r"^ +(?:ROOT )?%?[\w.\-]+ = (.*?) ([a-z][\w\-]*)\((.*)")
ARRAY = re.compile(r"\b(?:pred|[a-z]+(\d+)\w*)\[([\d,]*)\]")
CALLEE = re.compile(r"\b(?:body|calls|to_apply|true_computation|false_computation)=%?([\w.\-]+)")
BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
CONDITION = re.compile(r"\bcondition=%?([\w.\-]+)")
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
BOUND = re.compile(r" = s32\[\]\S* constant\((\d+)\)")
CHANNEL = re.compile(r"\bchannel_id=(\d+)")
SOURCE = re.compile(r'op_name="([^"]*)"')
# libtpu's name for a reduce-scatter that it has fused; the text inside says all-reduce.
SCATTER = "all-reduce-scatter"


@dataclass(frozen=True)
class Collective:
    """One collective operation of a program on n devices.

    bytes: of the array that it reduces or puts together; for all-to-all and collective-permute,
    of one device's part.  runs: how often one run of the program makes it.  source: the operation
    of the model that it serves, as far as the compiler has kept it.  channel: its number, "" for
    the end of an asynchronous pair.
    """

    kind: str
    bytes: int
    runs: int = 1
    source: str = ""
    channel: str = ""

    def sent(self, n: int) -> float:
        """The bytes that each device sends, on a ring of n, in all runs."""
        share = {"all-reduce": 2 * (n - 1) / n, "collective-permute": 1}
        return self.runs * self.bytes * share.get(self.kind, (n - 1) / n)


def collectives(hlo: str, n: int) -> list[Collective]:
    """What a program of n devices runs, from the entry on; each collective is among all of them.

    A loop counts as often as it runs, one whose length is not known in advance once; of the
    branches of a condition, the one that sends most. An asynchronous pair counts once, and so does
    an operation on several arrays, with the bytes of all of them.
    """
    computations, entry = split(hlo)
    found: dict[str | int, Collective] = {}
    for one in walk(entry, computations, n):
        # libtpu writes an asynchronous all-gather into each fusion that computes meanwhile.
        found.setdefault(one.channel or len(found), one)
    return list(found.values())


def split(hlo: str) -> tuple[dict[str, list[str]], str]:
    """{name: lines} of the computations of a program, and the name of the entry."""
    computations, entry, name = {}, "", ""
    for line in hlo.splitlines():
        if head := HEAD.match(line):
            name = head[2]
            computations[name] = []
            entry = name if head[1] else entry
        elif name:
            computations[name].append(line)
    return computations, entry


def walk(name: str, computations: dict[str, list[str]], n: int) -> Iterator[Collective]:
    for line in computations[name]:
        found = INSTRUCTION.match(line)
        if not found:
            continue
        type_, operation, rest = found.groups()
        kind = operation.removesuffix("-done")
        if kind in KINDS:
            scattered = kind == "reduce-scatter"
            source, channel = SOURCE.search(rest), CHANNEL.search(rest)
            yield Collective(
                "reduce-scatter" if name.startswith(SCATTER) else kind,
                size(type_) * (n if scattered else 1),
                source=source[1] if source else "",
                channel=channel[1] if channel else "",
            )
        elif not operation.endswith(("-done", "-update")):
            yield from called(operation, rest, computations, n)


def called(
    operation: str, rest: str, computations: dict[str, list[str]], n: int
) -> Iterator[Collective]:
    """The collectives of the computations that an instruction runs."""
    names = CALLEE.findall(rest)
    for branches in BRANCHES.findall(rest):
        names += branches.replace("%", "").split(", ")
    inner = [list(walk(name, computations, n)) for name in names]
    if operation == "conditional":
        inner = [max(inner, key=lambda branch: sum(one.sent(n) for one in branch))]
    trips = trip_count(rest, computations) if operation == "while" else 1
    for one in sum(inner, []):
        yield replace(one, runs=one.runs * trips)


def trip_count(rest: str, computations: dict[str, list[str]]) -> int:
    """How often a loop runs: as XLA says, or the bound to which its condition compares; else 1."""
    if said := TRIPS.search(rest):
        return int(said[1])
    condition = "\n".join(computations[CONDITION.search(rest)[1]])
    bounds = BOUND.findall(condition)
    return int(bounds[0]) if len(bounds) == 1 and "direction=LT" in condition else 1


def size(type_: str) -> int:
    """Bytes of an array, or of a tuple of arrays, from its type in the text."""
    return sum(
        int(bits or 8) // 8 * prod(int(dim) for dim in dims.split(",") if dim)
        for bits, dims in ARRAY.findall(type_)
    )
