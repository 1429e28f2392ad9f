"""Parts that are an nn.BatchNorm and more, as timm's norms with an activation: an nn.BatchNorm within them norms, which Flax has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from redco_new.pytorch.derived import derived
from redco_new.pytorch.leaves import LEAVES

NORM = "norm"
# What F.batch_norm takes beside an array and its running statistics, and has where it is not said.
USUAL: dict[str, Any] = {
    "weight": None,
    "bias": None,
    "training": False,
    "momentum": 0.1,
    "eps": 1e-5,
}
# Of a class, what reads its norm. No functools.cache: memory.py clears those beside the classes of a model.
_CLASSES: dict[type, type] = {}


class OfNorm:
    """Reads what it norms by of its norm, which counts its batches: what the part itself counts is forgotten."""

    _modules: dict[str, Any]
    weight = property(lambda self: self._modules[NORM].weight)
    bias = property(lambda self: self._modules[NORM].bias)
    running_mean = property(lambda self: self._modules[NORM].running_mean)
    running_var = property(lambda self: self._modules[NORM].running_var)
    num_batches_tracked = property(lambda self: torch.zeros((), dtype=torch.long))


def part_norms(module: nn.Module) -> None:
    """Give such parts an nn.BatchNorm that holds what they hold, and which they read it of."""
    owner: Any
    for owner in [*module.modules()]:
        base: Any = next((cls for cls in type(owner).__mro__ if cls in LEAVES), None)
        if base in (None, type(owner)) or not issubclass(base, _BatchNorm) or hasattr(owner, NORM):
            continue
        sizes = owner.num_features, owner.eps, owner.momentum
        norm = base(*sizes, owner.affine, owner.track_running_stats, device="meta")
        for kind in ("_parameters", "_buffers"):
            setattr(norm, kind, getattr(owner, kind))
            setattr(owner, kind, {})
        owner._modules = {NORM: norm, **owner._modules}
        owner.__class__ = _reading(type(owner))


def _reading(cls: type) -> type:
    """Return a class that is another one, as OfNorm: the same each time."""
    if cls not in _CLASSES:
        _CLASSES[cls] = derived(cls, OfNorm)
    return _CLASSES[cls]


def names_of_norms(module: nn.Module) -> dict[str, str]:
    """Return name of each tensor of such a norm -> as PyTorch saves it: as of the part itself."""
    norms = {path: part for path, part in module.named_modules() if isinstance(part, OfNorm)}
    return {
        f"{path}.{NORM}.{name}".lstrip("."): f"{path}.{name}".lstrip(".")
        for path, part in norms.items()
        for name in part._modules[NORM].state_dict()
    }


def _are_one(x: Any, other: Any) -> bool:
    return x is other or (isinstance(x, int | float) and x == other)


@contextmanager
def norms_by_parts() -> Iterator[None]:
    """Make such a part that calls F.batch_norm, as nn.BatchNorm does, call its norm."""
    usual: Callable[..., Any] = F.batch_norm

    def batch_norm(x: Any, mean: Any, var: Any, *args: Any, **kwargs: Any) -> Any:
        part = sys._getframe(1).f_locals.get("self")
        norm = part._modules[NORM] if isinstance(part, OfNorm) else None
        options = {**USUAL, **dict(zip(USUAL, args, strict=False)), **kwargs}
        own = {"running_mean": mean, "running_var": var, **options}
        if norm is None or any(not _are_one(x, getattr(norm, name)) for name, x in own.items()):
            return usual(x, mean, var, *args, **kwargs)
        return norm(x)

    with patch.object(F, "batch_norm", batch_norm):
        yield
