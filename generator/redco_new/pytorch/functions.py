"""A function that makes a module of PyTorch, or what is a Sequential itself: it is printed as a class of that name."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from redco_new.errors import RedcoError
from redco_new.own.find import Reference, class_name
from redco_new.own.maker import MISSING, call_user_code
from redco_new.own.signature import check_arguments, maker_signature
from redco_new.pytorch.derived import derived
from redco_new.pytorch.lists import is_sequential
from redco_new.pytorch.transformers_classes import is_transformers

LAYERS = "layers"
_CLASSES: dict[tuple[type, str], type] = {}  # what is made -> as it is called


class Chain(nn.Module):
    """A model that is a Sequential itself, as the one part of a class."""

    def __init__(self, layers: nn.Sequential) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor) -> Any:
        """Return what its last entry gives."""
        return self.layers(x)


def with_class(reference: Reference, where: str, arguments: Mapping[str, Any]) -> Reference:
    """Return what makes a module of PyTorch as a class that is printed; what makes another one as it is.

    That is the class of what a function makes, and one that has a Sequential for what is one itself.
    where: what gave the arguments

    Raises RedcoError for arguments that it does not take or lacks, and for a module of transformers.
    """
    function, name = reference.value, reference.name
    shown = name if isinstance(function, type) else class_name(name)
    check_arguments(where, name, maker_signature(function), arguments)

    @functools.wraps(function)
    def make(**values: Any) -> Any:
        module = function(**values)
        if is_sequential(module):
            module = Chain(module)
        if isinstance(module, nn.Module):
            module.__class__ = _named(type(module), shown)
        return module

    with torch.device("meta"):
        module = call_user_code(name, lambda: make(**arguments), MISSING)
    if not isinstance(module, nn.Module):
        return reference
    if is_transformers(type(module)):
        cls = type(module).__mro__[1].__name__
        what = f"{name}() gives a {cls}, whose config says what it is made of"
        raise RedcoError("--model", what, f"give --model transformers:{cls}, or the checkpoint")
    return replace(reference, value=type(module), name=shown, make=make)


def names_of_entries(module: nn.Module, names: Mapping[str, str]) -> dict[str, str]:
    """Return name of each tensor -> as PyTorch saves it: what is a Sequential has its entries' own. names: of others"""
    if not isinstance(module, Chain):
        return dict(names)
    every = {name: names.get(name, name) for name in module.state_dict()}
    return {name: saved.removeprefix(f"{LAYERS}.") for name, saved in every.items()}


def _named(cls: type, name: str) -> type:
    """Return a class of another name, which is the same each time; its source is that of the other."""
    if (cls, name) not in _CLASSES:
        _CLASSES[cls, name] = derived(cls, name=name)
    return _CLASSES[cls, name]
