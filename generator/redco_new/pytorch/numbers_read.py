"""Numbers that a constructor reads of tensors that it makes of numbers alone, as rates of layers: they are known where tensors have no values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DisableTorchFunction
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

MAKERS = {"arange", "linspace", "logspace", "tensor"}
READERS = {"item", "tolist", "numpy", "__float__", "__int__", "__bool__", "__index__"}
Recipe = tuple[Any, Any, Any, int | None]


class ReadNumbers(TorchFunctionMode):
    """Note how tensors are made of numbers alone; where one is read, compute it."""

    def __init__(self) -> None:
        super().__init__()
        self._recipes: dict[int, tuple[torch.Tensor, Recipe]] = {}  # by id, of what is kept alive

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return what a function gives."""
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        leaves = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        of_numbers = all(id(x) in self._recipes for x in leaves) if leaves else name in MAKERS
        if of_numbers and name in READERS:
            args, kwargs = self._value(args), self._value(kwargs)
            with DisableTorchFunction(), _disable_current_modes():
                return func(*args, **kwargs)
        if name == "cpu" and leaves[0].is_meta:  # where its values are to be read
            return leaves[0]
        result = func(*args, **kwargs)
        if leaves and name.endswith("_") and not name.endswith("__"):
            self._forget(leaves[0])
        elif of_numbers and not any(result is x for x in leaves):
            several = isinstance(result, tuple | list)
            for i, x in enumerate(result if several else [result]):
                if isinstance(x, torch.Tensor):
                    self._recipes[id(x)] = x, (func, args, kwargs, i if several else None)
        return result

    def _forget(self, changed: torch.Tensor) -> None:
        """Drop how a tensor, and what shares its memory, was made."""
        there = _storage(changed)
        self._recipes = {k: x for k, x in self._recipes.items() if _storage(x[0]) != there}

    def _value(self, tree: Any) -> Any:
        """Return arguments with the values of their tensors."""
        return pytree.tree_map_only(torch.Tensor, self._computed, tree)

    def _computed(self, x: torch.Tensor) -> torch.Tensor:
        func, args, kwargs, place = self._recipes[id(x)][1]
        args, kwargs = self._value(args), self._value(kwargs)
        if "device" in kwargs:
            kwargs = {**kwargs, "device": "cpu"}
        with DisableTorchFunction(), _disable_current_modes(), default_dtype(torch.float32):
            result = func(*args, **kwargs)
        return result if place is None else result[place]


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Make tensors of a dtype meanwhile, where nothing says another one."""
    former = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(former)


def _storage(x: torch.Tensor) -> int:
    return x.untyped_storage()._cdata
