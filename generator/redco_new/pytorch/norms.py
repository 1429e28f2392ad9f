"""Parts that are an nn.BatchNorm and more, as timm's norms with an activation: an nn.BatchNorm within them norms, which Flax has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, cast
from unittest.mock import patch

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

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
COUNT = "num_batches_tracked"  # by the one within: what the part itself counts is forgotten


def part_norms(module: nn.Module) -> None:
    """Give such parts an nn.BatchNorm that holds what they hold, and which they read it of."""
    own = (x for x in [*module.modules()] if isinstance(x, _BatchNorm) and type(x) not in LEAVES)
    for owner in cast(Iterator[Any], own):
        base: Any = next((cls for cls in type(owner).__mro__ if cls in LEAVES), None)
        if base is None or hasattr(owner, NORM):  # as of nn.SyncBatchNorm
            continue
        sizes = owner.num_features, owner.eps, owner.momentum
        norm = base(*sizes, owner.affine, owner.track_running_stats, device="meta")
        for kind in ("_parameters", "_buffers"):
            setattr(norm, kind, getattr(owner, kind))
            setattr(owner, kind, {})
        owner._modules = {NORM: norm, **owner._modules}
        cls: Any = type(owner)
        owner.__class__ = _reading(cls)


@cache
def _reading(cls: Any) -> Any:
    """Return a class that is another one, and reads what it normed by of its part."""

    def read(name: str) -> property:
        return property(lambda self: getattr(self._modules[NORM], name))

    count = property(lambda self: torch.zeros((), dtype=torch.long))
    names = ("weight", "bias", "running_mean", "running_var")
    place = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    return type(cls.__name__, (cls,), {COUNT: count, **place, **{x: read(x) for x in names}})


def names_of_norms(module: nn.Module) -> dict[str, str]:
    """Return name of each tensor of such a norm -> as PyTorch saves it: as of the part itself."""
    paths = [path for path, part in module.named_modules() if _norm_of(part)]
    return {
        f"{path}.{NORM}.{name}".lstrip("."): f"{path}.{name}".lstrip(".")
        for path in paths
        for name in module.get_submodule(path)._modules[NORM].state_dict()  # type: ignore[union-attr]
    }


def _norm_of(part: Any) -> Any:
    """Return the norm of a part that part_norms gave one; None of others."""
    own = isinstance(part, _BatchNorm) and type(part) not in LEAVES
    return part._modules.get(NORM) if own else None


def _are_one(x: Any, other: Any) -> bool:
    return x is other or (isinstance(x, int | float) and x == other)


@contextmanager
def norms_by_parts() -> Iterator[None]:
    """Make such a part that calls F.batch_norm, as nn.BatchNorm does, call its norm."""
    usual: Callable[..., Any] = F.batch_norm

    def batch_norm(x: Any, mean: Any, var: Any, *args: Any, **kwargs: Any) -> Any:
        part = sys._getframe(1).f_locals.get("self")
        norm = _norm_of(part)
        options = {**USUAL, **dict(zip(USUAL, args, strict=False)), **kwargs}
        own = {"running_mean": mean, "running_var": var, **options}
        if norm is None or any(not _are_one(x, getattr(norm, name)) for name, x in own.items()):
            return usual(x, mean, var, *args, **kwargs)
        return norm(x)

    with patch.object(F, "batch_norm", batch_norm):
        yield
