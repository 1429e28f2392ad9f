"""The parts of a scan: its constants, its carries, and what it runs over.

JAX names their numbers in the parameters of the equation up to 0.10, and in another form from 0.11 on. In
both, the arrays that a scan runs over, or stacks up, have a dim less in its body, and the others do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jax.extend.core import JaxprEqn


def scan_sizes(eqn: JaxprEqn) -> tuple[int, int]:
    """Return how many constants and how many carries a scan has, in this order of its inputs."""
    body = eqn.params["jaxpr"].jaxpr
    carries = _whole(eqn.outvars, body.outvars)
    return _whole(eqn.invars, body.invars) - carries, carries


def _whole(outside: Iterable[Any], inside: Iterable[Any]) -> int:
    """Return how many arrays have as many dims inside the loop as outside."""
    return sum(a.aval.ndim == b.aval.ndim for a, b in zip(outside, inside, strict=True))
