"""The least seconds that a machine needs for a compiled program, kernel by kernel.

A kernel takes max(FLOPs / peak, bytes / bandwidth), one after the other; the collectives beside them
at the speed of the link. No program is as fast: it ranks programs, and is a bound for each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod

from redco_fit.compiled.exposed import exposed_seconds
from redco_fit.compiled.groups import groups_of
from redco_fit.compiled.hlo import KINDS, OPERAND, Collective, collectives, size
from redco_fit.compiled.instructions import ARRAY, Instruction, Program, shapes
from redco_fit.compiled.products import EIGHT, attention_flops, product_dtype, product_flops
from redco_fit.compiled.scatters import numbers_added

# They move nothing by themselves, or are counted by what they call.
FREE = {
    *("parameter", "get-tuple-element", "tuple", "bitcast", "constant", "iota", "after-all"),
    *("while", "call", "conditional", "async-start", "async-done", "async-update"),
}
# Of cuDNN's kernels, forward and backward together, of a dense peak: FlashAttention-3 reaches 75 % going
# forward and 60 % over both (Shah et al. 2024, figures 5 and 6).
ATTENTION = 0.6
# In the name of a condition of the runtime (nn/experts/expert_passes.py) whose longer branch is hardly ever taken.
SELDOM = "/seldom/"
SCALARS = 1024  # bytes below which an operand is an index
VIEWS = ("bitcast", "convert")  # what XLA makes of no more elements than are taken of it
SLICES = ("slice", "dynamic-slice")  # what takes a layer of a stack


@dataclass(frozen=True)
class Machine:
    """A device.

    flops: dense products of bf16, a second.  bandwidth, link: bytes a second of memory, and to others.
    others: products of other dtypes a second, of those that are not as fast: float32, float8, int8.
    cache: bytes a second that its cores read of the cache that they share; so many that it does not matter, by default.
    added: numbers a second that its cores add to an array that they share, by atomic operations; likewise.
    """

    flops: float
    bandwidth: float
    link: float
    others: Mapping[str, float] = field(default_factory=dict)
    cache: float = math.inf
    added: float = math.inf


# NVIDIA's data sheet of the H100 SXM: 989 TFLOP/s, 1,979 of float8, 3.35 TB/s; 450 GB/s of NVLink each way, of which
# NCCL's all-gathers reach 80 %.
H100 = Machine(989e12, 3.35e12, 360e9, others={"float8": 1979e12})


def bound(
    text: str,
    devices: int,
    machine: Machine,
    length: int,
    link_seconds: Callable[[Collective], float] | None = None,
    expert_parts: int = 1,
) -> dict[str, float]:
    """Return what one run of a program costs each device.

    link_seconds: of a collective, where they are not the bytes that a device sends by its one link.
    expert_parts: in how many the devices split the experts of a model that has some.

    seconds: of all kernels; of them products, attention, other.  link: seconds of the collectives.
    exposed: of those, the ones that nothing is computed beside.
    flops: of products and attention.  flops8: of those, in 8 bits.  squares: bytes of arrays length x length that are read and written.
    """
    program = Program(text)

    @cache
    def total(computation: str) -> Counter:
        costs: Counter[str] = Counter()
        for one in program.computations[computation]:
            costs.update(_cost(program, computation, one, machine, length, expert_parts))
            inner = [total(name) for name in program.callees(one)]
            if one.operation == "conditional":
                usual = min if SELDOM in one.rest else max
                inner = [usual(inner, key=lambda cost: cost["seconds"])]
            if one.operation in ("while", "call", "conditional", "async-start"):
                for costs_inside in inner:
                    times = program.trips(one)
                    costs.update({k: times * v for k, v in costs_inside.items()})
        return costs

    def by_link(one: Collective) -> float:
        return one.sent(devices) / machine.link

    link_of = link_seconds or by_link
    link = sum(map(link_of, collectives(text, devices)))

    def seconds(computation: str, one: Instruction) -> float:
        return _cost(program, computation, one, machine, length, expert_parts).get("seconds", 0.0)

    return {**dict.fromkeys(("products", "attention", "other", "squares", "flops8"), 0.0)} | {
        **total(program.entry),
        "link": link,
        "exposed": exposed_seconds(program, devices, link_of, seconds),
    }


def _cost(
    program: Program,
    computation: str,
    one: Instruction,
    machine: Machine,
    length: int,
    expert_parts: int,
) -> dict[str, float]:
    """Return what one instruction costs by itself, by the names of `bound`."""
    kind = one.operation.removesuffix("-start").removesuffix("-done")
    if one.operation in FREE or one.operation.endswith("-done") or kind in KINDS:
        return {}
    types = [one.type, *program.operands(computation, one)]
    memory = _bytes(program, one, types) / machine.bandwidth
    squares = sum(_squares(type_, length) for type_ in types)
    flops8 = 0.0
    flops: float = attention_flops(program, computation, one)
    if flops:
        computed = flops * (1.25 if "Backward" in one.rest else 1)  # five products for four
        seconds, part = max(computed / machine.flops / ATTENTION, memory), "attention"
    elif groups := groups_of(program, computation, one, expert_parts):
        flops, part = groups.flops, "products"
        seconds = max(flops / machine.flops, groups.read / machine.cache, memory)
    elif flops := product_flops(program, computation, one, expert_parts):
        dtype = product_dtype(program, computation, one)
        flops8 = flops if dtype in EIGHT else 0.0
        seconds = max(flops / machine.others.get(dtype, machine.flops), memory)
        part = "products"
    else:
        added = numbers_added(program, computation, one) / machine.added
        seconds, part = max(memory, added), "other"
    flop_counts = {"flops": flops, "flops8": flops8}
    return {"seconds": seconds, part: seconds, **flop_counts, "squares": squares}


def _bytes(program: Program, one: Instruction, types: list[str]) -> float:
    """Return the bytes that an instruction reads and writes."""
    result, *read = map(size, types)
    if "dynamic-update-slice" in one.name or "dynamic_update_slice" in one.name:  # in place
        return 2 * min((n for n in read if n > SCALARS), default=0)
    if one.operation == "fusion":
        return result + sum(min(n, m) for n, m in zip(read, _sliced(program, one), strict=True))
    return result + sum(read)


def _sliced(program: Program, fusion: Instruction) -> list[float]:
    """Return the bytes that a fusion takes of each operand: of a stack of layers only a layer."""
    body = program.computations[program.callees(fusion)[0]]

    def sliced_bytes(array: Instruction) -> float:
        users = [u for u in body if array.name in OPERAND.findall(u.rest.split("), ")[0])]
        # Of the array, of which a convert makes other bytes.
        ratios = (
            (user, size(array.type) / size(user.type)) for user in users if user.operation in VIEWS
        )
        views = sum(sliced_bytes(user) * ratio for user, ratio in ratios)
        slices = sum(size(user.type) for user in users if user.operation in SLICES)
        others = any(user.operation not in (*VIEWS, *SLICES) for user in users)
        return math.inf if others or not users else views + slices

    parameters = [one for one in body if one.operation == "parameter"]
    return [
        sliced_bytes(one) for one in sorted(parameters, key=lambda one: int(one.rest.split(")")[0]))
    ]


def _squares(type_: str, length: int) -> int:
    """Return the bytes of the arrays of a type that have two dims of `length`."""
    arrays = (f"{kind}[{dims}]" for kind, dims in ARRAY.findall(type_))
    return sum(
        size(array)
        for array in arrays
        if shapes(array)[0].count(length) > 1 and prod(shapes(array)[0]) > length**2
    )
