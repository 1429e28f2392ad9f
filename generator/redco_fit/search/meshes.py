"""The meshes that so many devices can be laid out in."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from redco_new.request.mesh import check_mesh

from redco_fit.target import Target

# Devices of a TPU's slice that split a layer at most: one or two sides of it, as in MaxText's configurations.
MOST_TPU = 16


def meshes_of(target: Target, experts: int = 1) -> Iterator[dict[str, int]]:
    """Yield data x fsdp x expert x model of all devices, those that split a layer least first.

    Of a TPU, those whose axes are whole sides of its slice. experts: of a layer; the axis `expert` divides them. `model` stays within a host of GPUs: between hosts, what
    each layer sends takes longer than its products.
    """
    count = target.devices
    most = MOST_TPU if target.hardware.platform == "tpu" else target.per_host
    for model in divisors(count):
        for expert in divisors(count // model):
            if model > most or experts % expert:
                continue
            rest = count // model // expert
            for data in divisors(rest):
                mesh = {"data": data, "fsdp": rest // data, "expert": expert, "model": model}
                if on_sides([*mesh.values()], target):
                    yield mesh


def rare_meshes(target: Target, experts: int = 1) -> Iterator[dict[str, int]]:
    """Yield those that split positions too, or layers in stages: what is not needed where the others fit.

    `context` goes with fsdp, and stages with data and expert.
    """
    for mesh in meshes_of(target, experts):
        for size in divisors(mesh["data"] * mesh["fsdp"])[1:]:
            found = []
            if mesh["fsdp"] == 1:
                found.append({**mesh, "data": mesh["data"] // size, "stage": size})
            if mesh["data"] == 1:
                found.append({**mesh, "fsdp": mesh["fsdp"] // size, "context": size})
            for one in found:
                if on_sides([*one.values()], target):
                    yield check_mesh("--mesh", one)


def is_near(size: int, target: Target) -> bool:
    """Return whether the devices of innermost axes of this size are in one host of GPUs; True for TPUs."""
    return target.hardware.platform == "tpu" or size <= target.per_host


def on_sides(sizes: list[int], target: Target) -> bool:
    """Return whether axes of these sizes are whole sides of a TPU's slice, as jax.make_mesh lays them; True for GPUs."""
    if target.hardware.platform != "tpu" or math.prod(target.shape) != target.devices:
        return True
    return _take([size for size in sizes if size > 1], target.shape)


def _take(sizes: list[int], sides: tuple[int, ...]) -> bool:
    """Return whether each of the sizes can have sides of its own, whose product it is."""
    if not sizes:
        return True
    for count in range(1, len(sides) + 1):
        for some in itertools.combinations(range(len(sides)), count):
            left = tuple(side for i, side in enumerate(sides) if i not in some)
            if math.prod(sides[i] for i in some) == sizes[0] and _take(sizes[1:], left):
                return True
    return False


def divisors(count: int) -> list[int]:
    """Return the numbers that divide `count`, rising."""
    small = [n for n in range(1, int(count**0.5) + 1) if count % n == 0]
    return sorted({*small, *(count // n for n in small)})
