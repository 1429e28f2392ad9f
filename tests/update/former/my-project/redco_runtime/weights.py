"""What Hugging Face calls parameters, and how it lays them out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """Where a checkpoint holds a parameter.

    name: of the tensor; one {} for each leading dim of the parameter, which is stacked of several.
    order: the stored dim that each of the parameter's other dims is; () for the same order.
    part: (dim, start, stop): the range of a stored dim that is the parameter; None for all.
    optional: a checkpoint may lack it; then the parameter keeps its initial value.
    """

    name: str
    order: tuple[int, ...] = ()
    part: tuple[int, int, int] | None = None
    optional: bool = False

    @property
    def depth(self) -> int:
        """How many leading dims of the parameter are stacked."""
        return self.name.count("{}")

    def axes(self, ndim: int) -> list[int]:
        """For each stored dim, which of the `ndim` others of the parameter it is."""
        return [int(i) for i in np.argsort(self.order or range(ndim))]

    def index(self, ranges: Sequence[range]) -> tuple[slice, ...]:
        """Where `ranges`, one for each of the parameter's other dims, are in the stored tensor."""
        found = [slice(ranges[i].start, ranges[i].stop) for i in self.axes(len(ranges))]
        if self.part:
            dim, shift, _ = self.part
            found[dim] = slice(found[dim].start + shift, found[dim].stop + shift)
        return tuple(found)


@dataclass(frozen=True)
class Whole:
    """A stored tensor: its shape, and (path, index of its leading dims) of what is in it."""

    shape: Shape
    pieces: list[tuple[str, tuple[int, ...]]]


def wholes(table: Mapping[str, Tensor], shapes: Mapping[str, Shape]) -> dict[str, Whole]:
    """The stored tensors, by name, of a table: path of a parameter -> Tensor."""
    ends = dict.fromkeys((tensor.name for tensor in table.values()), 0)
    for tensor in table.values():
        ends[tensor.name] = max(ends[tensor.name], tensor.part[2] if tensor.part else 0)
    found: dict[str, Whole] = {}
    for path, tensor in table.items():
        stack, dims = shapes[path][: tensor.depth], shapes[path][tensor.depth :]
        shape = [dims[i] for i in tensor.axes(len(dims))]
        if tensor.part:
            shape[tensor.part[0]] = ends[tensor.name]
        for index in np.ndindex(*stack):
            whole = found.setdefault(tensor.name.format(*index), Whole(tuple(shape), []))
            whole.pieces.append((path, index))
    return found


def own_names(paths: Iterable[str]) -> dict[str, Tensor]:
    """The table of a model that has no weights.py: names are paths, joined by "."."""
    return {path: Tensor(path.replace("/", ".")) for path in paths}
