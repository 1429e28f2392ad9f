"""A class around one of the user's that a project cannot call as it is, ready to paste."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any

from flax import linen

from redco_new.own.find import Reference
from redco_new.own.signature import maker_signature

NNX = """\
from flax import nnx
from {module} import {name}

class Wrapped(nnx.Module):
    def __init__(self{parameters}):
        self.net = {made}

    def __call__(self, {inputs}):
        return self.net{method}({call})  # fill in the rest"""
LINEN = """\
from flax import linen as nn
from {module} import {name}

class Wrapped(nn.Module):
    @nn.compact
    def __call__(self, {inputs}):
        net = {made}
        return net{method}({call})  # fill in the rest"""


def print_wrapper(
    reference: Reference,
    method: str,
    arguments: Mapping[str, Any],
    inputs: Collection[str],
    *,
    is_linen: bool = False,
) -> str:
    """Return what to do where a project cannot call a class: a class around it, in eight lines.

    arguments: of its constructor
    inputs: arguments of its call that a wrapper can have too
    is_linen: whether a function makes a module of Linen; it is clear of a class
    """
    value, name = reference.value, reference.name
    is_made = isinstance(value, linen.Module)
    is_class = isinstance(value, type)
    is_linen = is_linen or is_made or (is_class and issubclass(value, linen.Module))
    called = getattr(value, method, None) if is_made or is_class else None
    takes_rngs = not is_linen and "rngs" in maker_signature(value).parameters
    passed = [f"{k}={_plain_source(v)}" for k, v in arguments.items()]
    if not is_linen:
        passed = ["**arguments", *(["rngs=rngs"] if takes_rngs else [])]
    text = (LINEN if is_linen else NNX).format(
        module=reference.module,
        name=name,
        parameters=f"{', *, rngs' if takes_rngs else ''}, **arguments",
        made=name if is_made else f"{name}({', '.join(passed)})",
        inputs=", ".join(inputs) or "x",
        method="" if method == "__call__" else f".{method}",
        call=", ".join(_arguments(called, inputs)),
    )
    lines = "\n".join(f"    {line}".rstrip() for line in text.splitlines())
    return f"give a class around it, --model wrapped.py:Wrapped, say:\n\n{lines}\n"


def _plain_source(value: Any) -> str:
    """Return plain data as Python, `...` for what is none."""
    return repr(value) if isinstance(value, bool | int | float | str | tuple) else "..."


def _arguments(method: Any, inputs: Collection[str]) -> list[str]:
    """Return the arguments that a method needs, as Python: `...` for what is none of `inputs`."""
    if method is None:
        return [f"{name}={name}" for name in inputs]
    parameters = [p for p in inspect.signature(method).parameters.values() if p.name != "self"]
    arguments = []
    for p in parameters:
        value = p.name if p.name in inputs else "..."
        if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL):
            arguments.append(value)
        elif p.default is p.empty and p.kind is not p.VAR_KEYWORD or p.name in inputs:
            arguments.append(f"{p.name}={value}")
    return arguments
