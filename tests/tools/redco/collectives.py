"""What a compiled step sends between its devices, read from the text of its HLO."""

from __future__ import annotations

import re
from collections import Counter
from math import prod

_KINDS = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
_COLLECTIVE = re.compile(rf"= (.*?) ({_KINDS})\(")
_CALLEE = re.compile(r"\b(?:body|calls|to_apply)=%?([\w.\-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_ARRAY = re.compile(r"\b[a-z]+(\d+)\[([\d,]*)\]")


def collectives(hlo: str, unit: int) -> dict[str, int | float]:
    """Collectives that one step runs, loops counted by their trips.

    Returns for each kind its `<kind>_ops`, and its `<kind>_units`: the bytes of the results on one
    device in units of `unit` bytes. Raises ValueError if a loop holds a collective and its number
    of trips is not in the text.
    """
    computations, entry = _computations(hlo)
    ops, size = _totals(entry, computations)
    kinds = _KINDS.split("|")
    return {f"{kind.replace('-', '_')}_ops": ops[kind] for kind in kinds} | {
        f"{kind.replace('-', '_')}_units": round(size[kind] / unit, 3) for kind in kinds
    }


def _computations(hlo: str) -> tuple[dict[str, list[str]], str]:
    computations: dict[str, list[str]] = {}
    entry = name = ""
    for line in hlo.splitlines():
        if head := _HEAD.match(line):
            name = head[2]
            computations[name] = []
            entry = name if head[1] else entry
        elif name:
            computations[name].append(line)
    return computations, entry


def _totals(name: str, computations: dict[str, list[str]]) -> tuple[Counter, Counter]:
    ops: Counter = Counter()
    size: Counter = Counter()
    for line in computations[name]:
        if found := _COLLECTIVE.search(line):
            ops[found[2]] += 1
            size[found[2]] += sum(map(_bytes, _ARRAY.findall(found[1])))
        for callee in _CALLEE.findall(line):
            inner_ops, inner_size = _totals(callee, computations)
            trips = _trips(line) if inner_ops else 1
            for kind in inner_ops:
                ops[kind] += trips * inner_ops[kind]
                size[kind] += trips * inner_size[kind]
    return ops, size


def _trips(line: str) -> int:
    if " while(" not in line:
        return 1
    if found := _TRIPS.search(line):
        return int(found[1])
    raise ValueError(f"a loop with collectives does not say its trips: {line.strip()[:100]}")


def _bytes(array: tuple[str, str]) -> int:
    bits, dims = array
    return int(bits) // 8 * prod(int(dim) for dim in dims.split(",") if dim)
