"""A program whose fused arrays have their parts apart: q, k and v of one kernel, gate and up.

An array of k equal parts side by side along a dim cannot be split so that each device holds its
share of every part. Here its dim of k * F elements is two dims, k and F, until something needs it
in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax._src import source_info_util
from jax.extend.core import Jaxpr, Literal


@dataclass(frozen=True)
class Parts:
    """An array whose dim `dim`, of k * F elements, is the dims `dim` and `dim + 1` of `array`."""

    dim: int
    array: jax.Array

    @property
    def count(self) -> int:
        return self.array.shape[self.dim]

    @property
    def size(self) -> int:
        """Elements of one part."""
        return self.array.shape[self.dim + 1]

    def whole(self) -> jax.Array:
        before, after = self.array.shape[: self.dim], self.array.shape[self.dim + 2 :]
        return self.array.reshape(*before, self.count * self.size, *after)


Rule = Callable[[Any, list[Any]], list[Any] | None]
RULES: dict[str, Rule] = {}


def rule(*primitives: str) -> Callable[[Rule], Rule]:
    """Register what primitives make of inputs some of which are Parts; None: they need them whole."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(primitives, function))
        return function

    return register


def evaluate(jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a program, arrays or Parts, for inputs that are arrays or Parts."""
    env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *inputs), strict=True))
    for eqn in jaxpr.eqns:
        values = [a.val if isinstance(a, Literal) else env[a] for a in eqn.invars]
        stack = source_info_util.current_name_stack() + eqn.source_info.name_stack
        context = source_info_util.user_context(eqn.source_info.traceback, name_stack=stack)
        with context, eqn.ctx.manager:
            made = None
            if any(isinstance(value, Parts) for value in values) and eqn.primitive.name in RULES:
                made = RULES[eqn.primitive.name](eqn, values)
            if made is None:
                made = bind(eqn, map(whole, values))
        env.update(zip(eqn.outvars, made, strict=True))
    return [a.val if isinstance(a, Literal) else env[a] for a in jaxpr.outvars]


def bind(eqn: Any, values: Any, **params: Any) -> list[Any]:
    """The outputs of an equation, some of its parameters replaced."""
    known = eqn.primitive.get_bind_params(eqn.params)
    made = eqn.primitive.bind(*values, **{**known, **params})
    return list(made) if eqn.primitive.multiple_results else [made]


def whole(value: Any) -> Any:
    return value.whole() if isinstance(value, Parts) else value
