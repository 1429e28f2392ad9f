"""Numbers that a class makes tensors of, as steps of its program: as constants, on the meta device, they have no values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

FEW = 64  # numbers of a list that is written into model.py


@contextmanager
def numbers_as_steps() -> Iterator[None]:
    """Make tensors of numbers, and lists of places that are read, by steps of the program."""
    former = torch.tensor

    def tensor(data: Any, *, dtype: Any = None, device: Any = None, **rest: Any) -> torch.Tensor:
        if step := _step(data):
            return torch.arange(data[0], data[-1] + step, step, dtype=dtype, device=device)
        if not isinstance(data, bool | int | float):
            return former(data, dtype=dtype, device=device, **rest)
        return torch.full((), data, dtype=dtype, device=device)

    torch.tensor = tensor  # type: ignore[assignment]
    try:
        with _Places():
            yield
    finally:
        torch.tensor = former


class _Places(TorchFunctionMode):
    """Say which places are read, of a list of them, by steps: one by a slice."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return what a function gives."""
        if func is torch.Tensor.__getitem__:
            several = isinstance(args[1], tuple)
            index = [_said(x, args[0], args[1]) for x in (args[1] if several else (args[1],))]
            args = (args[0], tuple(index) if several else index[0])
        return func(*args, **(kwargs or {}))


def _said(x: Any, of: torch.Tensor, index: Any) -> Any:
    """Return one entry of an index."""
    if not isinstance(x, list) or not x or any(type(i) is not int for i in x):
        return x
    others = [y for y in index if isinstance(y, list | torch.Tensor)] if index is not x else [x]
    if len(x) == 1 and len(others) == 1:
        return slice(x[0], x[0] + 1 or None)
    return torch.stack([torch.full((), i, dtype=torch.int64, device=of.device) for i in x])


def _step(data: Any) -> int:
    """Return by what a list of numbers counts up, or down: 1 or -1; 0 where it does not."""
    if not isinstance(data, list) or len(data) < 2 or any(type(i) is not int for i in data):
        return 0
    step = data[1] - data[0]
    counts = abs(step) == 1 and data == [*range(data[0], data[-1] + step, step)]
    return step if counts else 0


def say_number(graph: fx.Graph, node: fx.Node, constant: torch.Tensor) -> None:
    """Put a number, or a short list of them, in the place of a constant that is one, which sizes of the class may say."""
    if constant.numel() > FEW or isinstance(constant, FakeTensor):
        return
    values = pytree.tree_map_only(float, lambda x: float(f"{x:.9g}"), constant.tolist())
    with graph.inserting_before(node):
        number = graph.call_function(
            torch.ops.aten.scalar_tensor.default, (values,), {"dtype": constant.dtype}
        )
    number.meta = {"val": constant.to("meta")} | node.meta
    node.replace_all_uses_with(number)
