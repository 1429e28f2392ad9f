"""What files call parameters, and how they lay them out."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
import numpy as np

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """The place of a parameter in a checkpoint."""

    name: str  # of the tensor; one {} for each leading dim of the parameter, which is stacked of several
    order: tuple[int, ...] = ()  # the stored dim that each of the others is; () for the same order
    # (stored dim, start, stop) of the parameter; None: all.
    part: tuple[int, int, int] | None = None
    # A checkpoint may lack it, or have it of other classes: the parameter keeps its initial value.
    optional: bool = False
    otherwise: str = ""  # the tensor that it is read from where a checkpoint lacks it; "" for none
    classes: bool = False  # whether the parameter's last dim is of classes, which have names
    first: int = 0  # what the first {} is for the first of a stack
    step: int = 1  # by how much more it is for the next

    @property
    def depth(self) -> int:
        """The number of leading dims of the parameter that are stacked."""
        return self.name.count("{}")

    def name_at(self, index: Sequence[int]) -> str:
        """Return the name of the tensor at an index of the leading dims that are stacked."""
        outer = [self.first + self.step * i for i in index[:1]]
        return self.name.format(*outer, *index[1:])

    def axes(self, ndim: int) -> list[int]:
        """Return for each stored dim which of the `ndim` others of the parameter it is."""
        return [int(i) for i in np.argsort(self.order or range(ndim))]

    def index(self, ranges: Sequence[range]) -> tuple[slice, ...]:
        """Return where `ranges`, one for each of the parameter's other dims, are in the stored tensor."""
        index = [slice(ranges[i].start, ranges[i].stop) for i in self.axes(len(ranges))]
        if self.part:
            dim, shift, _ = self.part
            index[dim] = slice(index[dim].start + shift, index[dim].stop + shift)
        return tuple(index)


@dataclass(frozen=True)
class Whole:
    """A stored tensor: its shape, and (path, index of its leading dims) of what is in it."""

    shape: Shape
    pieces: list[tuple[str, tuple[int, ...]]]


def stored_there(
    table: Mapping[str, Tensor],
    stored: Mapping[str, Shape],
    shapes: Mapping[str, Shape],
    apart: Container[str] = (),
) -> tuple[dict[str, Tensor], list[str]]:
    """Return a table as it is for a checkpoint, and the names of optional tensors that are left out.

    stored: the shapes of its tensors, by name. shapes: those of the parameters, by path.
    apart: paths that are read otherwise, and left out too.
    """
    there, other = dict[str, Tensor](), list[str]()
    for path, tensor in table.items():
        if tensor.otherwise and tensor.name not in stored:
            there[path] = replace(tensor, name=tensor.otherwise)
        elif path in apart or not _fits(tensor, stored, shapes.get(path)):
            other.append(tensor.name)
        else:
            there[path] = tensor
    return there, other


def _fits(tensor: Tensor, stored: Mapping[str, Shape], shape: Shape | None) -> bool:
    """Return whether a checkpoint has an optional tensor, which has no {} in its name, as a parameter of a shape."""
    if not tensor.optional or shape is None:
        return True
    return stored.get(tensor.name) == tuple(shape[i] for i in tensor.axes(len(shape)))


def wholes(table: Mapping[str, Tensor], shapes: Mapping[str, Shape]) -> dict[str, Whole]:
    """Return the stored tensors, by name, of a table: path of a parameter -> Tensor."""
    ends = dict.fromkeys((tensor.name for tensor in table.values()), 0)
    for tensor in table.values():
        ends[tensor.name] = max(ends[tensor.name], tensor.part[2] if tensor.part else 0)
    tensors: dict[str, Whole] = {}
    for path, tensor in table.items():
        stack, dims = shapes[path][: tensor.depth], shapes[path][tensor.depth :]
        shape = [dims[i] for i in tensor.axes(len(dims))]
        if tensor.part:
            shape[tensor.part[0]] = ends[tensor.name]
        for index in np.ndindex(*stack):
            whole = tensors.setdefault(tensor.name_at(index), Whole(tuple(shape), []))
            whole.pieces.append((path, index))
    return tensors
