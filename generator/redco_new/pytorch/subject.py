"""What is printed: a class of the user's own, or one of transformers, which a config makes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import nn

from redco_new.errors import RedcoError
from redco_new.own.call import Call
from redco_new.own.find import Reference
from redco_new.own.signature import check_arguments, check_inputs, maker_signature
from redco_new.request.own_class import Constant
from redco_new.pytorch.transformers_classes import (
    CACHE,
    MASK,
    PLAIN,
    config_numbers,
    is_transformers,
    make_of_config,
)


@dataclass(frozen=True)
class Subject:
    """A class, and how it is made and called.

    make: the module of arguments, as it is traced
    make_plain: the same as its users have it, which the gate compares with
    arguments: with the defaults of those that were not given
    """

    make: Callable[[Mapping[str, Any]], nn.Module]
    make_plain: Callable[[Mapping[str, Any]], nn.Module]
    arguments: Mapping[str, Any]
    call: Call


def read_subject(
    reference: Reference, where: str, arguments: Mapping[str, Any], call: Call
) -> Subject:
    """Return what is printed. Raises RedcoError for arguments that do not fit."""
    cls, name = reference.value, reference.name
    check_inputs(where, name, inspect.signature(cls.forward), call.arguments)
    if is_transformers(cls):
        return _of_config(cls, where, arguments, call)
    signature = maker_signature(cls)
    check_arguments(where, name, signature, arguments)
    bound = {k: p.default for k, p in signature.parameters.items() if p.default is not p.empty}

    def make(values: Mapping[str, Any]) -> nn.Module:
        return cls(**values)

    return Subject(make, make, {**bound, **arguments}, call)


def _of_config(cls: Any, where: str, arguments: Mapping[str, Any], call: Call) -> Subject:
    fields = vars(cls.config_class())
    if unfields := [key for key in arguments if key not in fields]:
        what = f"{cls.config_class.__name__} has no {unfields[0]}"
        raise RedcoError(f"{where}: [model]", what, "correct it")
    inputs = dict(call.arguments)
    takes = inspect.signature(cls.forward).parameters
    if MASK in takes and "input_ids" in inputs and MASK not in inputs:
        inputs[MASK] = replace(inputs["input_ids"], below=2, value=None)
    if CACHE in takes:
        inputs[CACHE] = Constant(False)
    return Subject(
        partial(make_of_config, cls),
        partial(make_of_config, cls, attention=PLAIN),
        config_numbers(cls, arguments),
        Call(inputs, call.method),
    )
