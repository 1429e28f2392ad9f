"""Parameters that are stored as several: those of a class of one's own."""

from collections.abc import Mapping
from dataclasses import replace

from .tensors import Shape, Tensor

Apart = Mapping[str, tuple[int, Shape]]  # path of a parameter -> (dim, size of each part)


def part_tensors(table: Mapping[str, Tensor], apart: Apart) -> dict[str, Tensor]:
    """Return the table of parameters as they are stored, from that of the model's own.

    apart: of those that are stored as several, whose paths end in the numbers of the parts.
    """
    parts: dict[str, Tensor] = {}
    for path, tensor in table.items():
        if path not in apart:
            parts[path] = tensor
            continue
        dim, sizes = apart[path]
        dim -= tensor.depth
        dim = tensor.order[dim] if tensor.order else dim
        start = tensor.part[1] if tensor.part else 0
        for number, size in enumerate(sizes):
            parts[f"{path}/{number}"] = replace(tensor, part=(dim, start, start + size))
            start += size
    return parts
