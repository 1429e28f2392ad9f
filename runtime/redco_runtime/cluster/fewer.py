"""On which mesh a run goes on with fewer hosts: the same batch, in the same order, where it fits.

What a step needs was measured where all hosts compiled it.
"""

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import jax

from ..base.contracts import Steps
from ..base.messages import writing
from ..base.files import path_of
from ..base.state import PyTree
from ..layout.mesh import axes_of, memory_of
from ..layout.specs import gradient_size, size_on_device

SHRINKING = ("data", "fsdp")  # axes that give devices up, in this order; all others stay
Sizes = dict[str, int]  # bytes of a device, by which of these split them: "data fsdp"


@dataclass(frozen=True)
class Needs:
    """What a run is, and what a step of it needs of each device, on all of its hosts.

    alone: whether no row depends on another, so that more micro-batches are the same training.
    rows: bytes that follow the rows of a micro-batch. has: bytes of a device; 0 where it does not say.
    """

    mesh: dict[str, int]
    batch_axes: list[str]
    batch_size: int
    micro_batches: int
    alone: bool
    state: Sizes
    params: Sizes
    rows: int
    has: int

    @classmethod
    def of_step(cls, steps: Steps, settings: Any, temporary: int) -> "Needs":
        """Return those of a step that is compiled. temporary: bytes that it has at once, beside its arguments."""
        mesh = steps.batch.mesh
        return cls(
            mesh=dict(mesh.shape),
            batch_axes=[axis for entry in steps.batch.spec for axis in axes_of(entry)],
            batch_size=settings.batch_size,
            micro_batches=settings.micro_batches,
            alone=bool(steps.rows),
            state=_sizes_by_axes(steps.state),
            params=_sizes_by_axes(steps.state.params),
            rows=max(temporary - gradient_size(steps.state, settings.micro_batches), 0),
            has=memory_of(jax.local_devices()[0]),
        )

    def save(self, path: str) -> None:
        """Write it, for the launchers. Raises UserError."""
        with writing(path):
            path_of(path).write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Any) -> "Needs | None":
        """Return what was written; None where there is nothing yet."""
        try:
            return cls(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def size(self, mesh: dict[str, int], micro_batches: int) -> float:
        """Return the bytes that a step needs of a device on another mesh."""

        def grow(size: float, axes: list[str]) -> float:
            return size * math.prod(self.mesh[axis] / mesh[axis] for axis in axes)

        state, params = (
            sum(grow(size, axes.split()) for axes, size in sizes.items())
            for sizes in (self.state, self.params)
        )
        rows = grow(self.rows, self.batch_axes) * self.micro_batches / micro_batches
        return state + params * min(micro_batches, 2) + rows  # gradients, and their sum


@dataclass(frozen=True)
class Layout:
    """How many hosts are used, and what that gives the command of the run."""

    hosts: int
    flags: list[str]


def choose_layout(needs: Needs | None, here: int, count: int) -> Layout | None:
    """Return the layout on as many of `here` hosts as can be, of the `count` of a whole run; None for none.

    It has the fewest micro-batches that fit.
    """
    if here == count:
        return Layout(count, [])
    for hosts in range(here if needs else 0, 0, -1):
        assert needs
        fixed = math.prod(size for axis, size in needs.mesh.items() if axis not in SHRINKING)
        rows, left = divmod(math.prod(needs.mesh.values()) * hosts, count * fixed)
        if left or not rows:
            continue
        fsdp = math.gcd(needs.mesh["fsdp"], rows)  # which divides the dims that it divided
        mesh = needs.mesh | {"data": rows // fsdp, "fsdp": fsdp}
        parts = math.prod(mesh[axis] for axis in needs.batch_axes)
        most = needs.batch_size // parts if needs.alone else needs.micro_batches
        for micro in range(needs.micro_batches, most + 1, needs.micro_batches):
            fits = not needs.has or needs.size(mesh, micro) <= needs.has
            if fits and needs.batch_size % (parts * micro) == 0:
                axes = ",".join(f"{axis}={size}" for axis, size in mesh.items())
                return Layout(hosts, ["--mesh", axes, "--micro-batches", str(micro)])
    return None


def _sizes_by_axes(abstract: PyTree) -> Sizes:
    sizes: Sizes = {}
    for leaf in jax.tree.leaves(abstract):
        splits = [axis for entry in leaf.sharding.spec for axis in axes_of(entry)]
        key = " ".join(axis for axis in SHRINKING if axis in splits)
        sizes[key] = sizes.get(key, 0) + size_on_device(leaf)
    return sizes
