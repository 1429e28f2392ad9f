"""A program whose fused arrays are computed part by part: q, k and v of one kernel, gate and up.

An array of k equal parts side by side along a dim cannot be split so that each device holds its
share of every part. Here such an array is k arrays until something needs it whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import source_info_util
from jax.extend.core import Jaxpr, Literal


@dataclass(frozen=True)
class Parts:
    """An array in equal parts along `dim`."""

    dim: int
    arrays: tuple[jax.Array, ...]

    @property
    def size(self) -> int:
        """Elements of one part along `dim`."""
        return self.arrays[0].shape[self.dim]

    def whole(self) -> jax.Array:
        return jnp.concatenate(self.arrays, self.dim)


Split = Callable[[Any, list[Any]], Any]
RULES: dict[str, Split] = {}


def rule(*primitives: str) -> Callable[[Split], Split]:
    """Register what a primitive makes of inputs some of which are Parts; None: it needs them whole."""

    def register(function: Split) -> Split:
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


def flat(values: list[Any]) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
    """All arrays of `values`, and a function that puts others in their places."""
    leaves = [a for v in values for a in (v.arrays if isinstance(v, Parts) else (v,))]

    def rebuild(others: Sequence[Any]) -> list[Any]:
        left = iter(others)
        return [
            (
                Parts(v.dim, tuple(next(left) for _ in v.arrays))
                if isinstance(v, Parts)
                else next(left)
            )
            for v in values
        ]

    return leaves, rebuild
