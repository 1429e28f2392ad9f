"""What `forward` keeps of a call: attributes and buffers that it assigns are forgotten, as a cache of a table is, which the next call makes anew."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

Attributes = list[tuple[dict[str, Any], dict[str, Any]]]


@contextmanager
def forgets(module: nn.Module) -> Iterator[None]:
    """Undo after a call what it assigned to attributes and buffers, or put into their lists and dicts; what its functions cache is neither read nor kept."""
    former = _attributes(module)
    _clear_caches(module)
    try:
        yield
    finally:
        _restore(former)
        for x in module.buffers():
            if x.grad_fn is not None:  # of a cache: what a call wrote into it
                x.detach_()
        _clear_caches(module)


def _attributes(module: nn.Module) -> Attributes:
    """Return what parts have -> a copy of it: their attributes, and the lists and dicts among these, buffers too."""
    own = [vars(part) for part in module.modules()]
    inner = (x for one in own for x in one.values() if type(x) in (dict, list, set))
    return [(x, type(x)(x)) for x in (*own, *inner)]


def _restore(former: Attributes) -> None:
    for one, before in former:
        if isinstance(one, list):
            one[:] = before
        else:
            one.clear()
            one.update(before)


def _clear_caches(module: nn.Module) -> None:
    """Drop what is in each `functools.cache` of methods of a class, and of functions beside it."""
    classes = {cls for part in module.modules() for cls in type(part).__mro__}
    files = {sys.modules.get(cls.__module__) for cls in classes if not _is_of_torch(cls)}
    for holder in (*classes, *files):
        for x in list(vars(holder).values()) if holder and not _is_of_torch(holder) else ():
            if hasattr(x, "cache_clear") and hasattr(x, "cache_info"):
                x.cache_clear()


def _is_of_torch(holder: Any) -> bool:
    name = getattr(holder, "__module__", None) or holder.__name__
    return name.partition(".")[0] in ("torch", "transformers", "builtins")


@contextmanager
def notes_assignments() -> Iterator[dict[str, str]]:
    """Give the names to which parts assign another value meanwhile, each with FILE:LINE of the first time."""
    places: dict[str, str] = {}
    assign = nn.Module.__setattr__

    def noted(part: nn.Module, name: str, value: Any) -> None:
        code: Any = sys._getframe(1)
        while code.f_code.co_filename == __file__:
            code = code.f_back
        if value is not getattr(part, name, None):
            places.setdefault(name, f"{Path(code.f_code.co_filename).name}:{code.f_lineno}")
        assign(part, name, value)

    with patch.object(nn.Module, "__setattr__", noted):
        yield places


@contextmanager
def writes_buffers() -> Iterator[None]:
    """Write into a buffer what a call assigns to it of its own shape, as PyTorch's layers do: the next call reads that."""
    assign = nn.Module.__setattr__

    def write(part: nn.Module, name: str, value: Any) -> None:
        # A proxy by which PyTorch follows a part of two names has no attributes at first.
        buffer: Any = vars(part).get("_buffers", {}).get(name)
        new = buffer is not None and isinstance(value, torch.Tensor) and value is not buffer
        if new and (value.shape, value.dtype) == (buffer.shape, buffer.dtype):
            buffer.copy_(value)
        else:
            assign(part, name, value)

    with patch.object(nn.Module, "__setattr__", write):
        yield


def place_of_write(module: nn.Module, path: str) -> str:
    """Return FILE:LINE where `forward` writes into a tensor of a part; "" where its text does not say so."""
    holder, _, name = path.rpartition(".")
    forward = type(module.get_submodule(holder)).forward
    try:
        lines, first = inspect.getsourcelines(forward)
    except (OSError, TypeError):
        return ""
    write = re.compile(rf"self\.{name}(\[.*\] *[-+*/|&]?=[^=]|\.\w+_\()")
    places = [first + i for i, line in enumerate(lines) if write.search(line)]
    return f"{Path(inspect.getfile(forward)).name}:{places[0]}" if places else ""
