"""A machine of some devices: what --hardware NAME[:SHAPE] asks for."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from redco_new.errors import RedcoError
from redco_new.request import COMPUTE, PRODUCTS

from redco_fit.hardware import HARDWARE, Hardware

EXAMPLES = "give for example h100:8, a100-80g:4x8 (hosts x devices), v5e:4x4 or v5p:64"
Slices = dict[int, tuple[int, ...]]
# Chips -> the slice that cloud.google.com/tpu/docs lists for so many; of 3 dims for v4, v5p and 7x.
FLAT: Slices = {1: (1, 1), 4: (2, 2), 8: (2, 4), 16: (4, 4), 32: (4, 8), 64: (8, 8), 128: (8, 16)}
FLAT |= {256: (16, 16)}
SOLID: Slices = {
    1: (1, 1, 1),
    4: (2, 2, 1),
    8: (2, 2, 2),
    16: (2, 2, 4),
    32: (2, 4, 4),
    64: (4, 4, 4),
}
SOLID |= {128: (4, 4, 8), 256: (4, 8, 8), 512: (8, 8, 8), 1024: (8, 8, 16), 2048: (8, 16, 16)}
SOLID |= {4096: (16, 16, 16)}
SLICES: dict[str, Slices] = {"v4": SOLID, "v5p": SOLID, "7x": SOLID, "v5e": FLAT, "v6e": FLAT}
HOST = (2, 2, 1)  # chips of a TPU host, along each axis
MOST = 2**20  # devices: more than any machine has


@dataclass(frozen=True)
class Target:
    """Devices of one kind.

    shape: of GPUs (hosts, devices of each); of TPUs the chips of the slice along each axis.
    """

    hardware: Hardware
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """As --hardware takes it: h100:4x8, h100:8."""
        sides = self.shape
        if (
            self.hardware.platform == "gpu"
            and self.shape[0] == 1
            and sides[1] <= self.hardware.per_host
        ):
            sides = (self.devices,)
        return f"{self.hardware.name}:{'x'.join(map(str, sides))}"

    @property
    def devices(self) -> int:
        """How many devices JAX sees: two of each chip of 7x."""
        return math.prod(self.shape) * (2 if self.hardware.name == "7x" else 1)

    @property
    def per_host(self) -> int:
        """Devices of a host."""
        if self.hardware.platform == "gpu":
            return self.shape[1]
        return min(self.hardware.per_host, self.devices)

    @property
    def hosts(self) -> int:
        """How many hosts they are in."""
        return self.devices // self.per_host

    @property
    def products(self) -> str:
        """What its devices multiply 8 bits as, by PRODUCTS of a request; "" where they do not."""
        return next((name for name in PRODUCTS if name in self.hardware.flops), "")

    def check_products(self, products: str) -> None:
        """Raise RedcoError where its devices have no such products, of PRODUCTS of a request."""
        if products not in (COMPUTE, self.products):
            what = f"{self.hardware.kind} has no such products"
            having = [one.name for one in HARDWARE.values() if products in one.flops]
            todo = f"{', '.join(having)} have them; give compute elsewhere"
            raise RedcoError(f"--products {products}", what, todo)

    @property
    def buildable(self) -> Target:
        """The same, or the nearest larger slice whose sides a host's chips divide: the compiler takes no other."""
        if self.hardware.platform == "gpu" or math.prod(self.shape) == 1:
            return self
        sides = zip(self.shape, HOST, strict=False)
        return replace(self, shape=tuple(-(-side // of) * of for side, of in sides))


def parse_target(text: str, where: str = "--hardware") -> Target:
    """Return what NAME[:SHAPE] asks for: `:8` devices, `:4x8` hosts and devices of each, `:4x4x4` of a slice.

    Without a shape, one device. Raises RedcoError, which names `where`.
    """
    name, colon, shape = text.partition(":")
    hardware = HARDWARE.get(name)
    if hardware is None:
        todo = f"choose one of {', '.join(HARDWARE)}; redco fit --list tells what each is"
        raise RedcoError(where, f"no hardware is called {name!r}", todo)
    if colon and not re.fullmatch(r"[1-9]\d{0,6}(x[1-9]\d{0,6}){0,2}", shape):
        raise RedcoError(where, f"{shape!r} is no shape", EXAMPLES)
    sides = tuple(int(side) for side in shape.split("x")) if colon else (1,)
    if math.prod(sides) > MOST:
        raise RedcoError(where, f"{text} has more devices than any machine", EXAMPLES)
    dims = len(next(iter(SLICES[name].values()))) if name in SLICES else 2
    if len(sides) == 1:
        return Target(hardware, _shape_of(hardware, sides[0], where))
    if len(sides) != dims:
        what = f"{shape!r} has {len(sides)} sides, and {name} has {dims}"
        raise RedcoError(where, what, EXAMPLES)
    return Target(hardware, sides)


def _shape_of(hardware: Hardware, count: int, where: str) -> tuple[int, ...]:
    """Return the shape of so many devices or chips. Raises RedcoError where no slice has that many."""
    slices, per_host = SLICES.get(hardware.name), hardware.per_host
    if slices is None:
        several = count > per_host and count % per_host == 0
        return (count // per_host, per_host) if several else (1, count)
    if count in slices:
        return slices[count]
    counts = ", ".join(map(str, slices))
    what = f"no slice of {hardware.name} has {count} chips"
    raise RedcoError(where, what, f"give one of {counts}, or its sides")
