"""What is clear of the arrays of a program: which inputs they have in them, and how those are used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np


class Table(NamedTuple):
    """What an input indexes: an array of `rows`, of `width` numbers each, of the parameters `origin`, a bit each."""

    rows: int
    width: int
    origin: int = 0


@dataclass(frozen=True)
class Use:
    """What a program does with an input.

    tables: that it indexes, by one-hot codes too
    positions: whether it is an angle's factor, or indexes a constant
    length: the size of the range that it is compared with; 0 for none
    segments: whether it is compared with itself
    mask: whether it is compared, a condition, or a factor of what other inputs give
    scores: whether it hides scores
    hides: whether what it is true for does not count
    """

    tables: tuple[Table, ...] = ()
    positions: bool = False
    length: int = 0
    segments: bool = False
    mask: bool = False
    scores: bool = False
    hides: bool = False


class Flow(NamedTuple):
    """An input in an array of the program: its numbers, moved about, plus `offset`; None if unclear.

    sign: 1 where the array grows with the input, -1 where it falls
    """

    source: str
    sign: int = 1
    offset: float | None = 0


@dataclass(frozen=True)
class Value:
    """What is clear of an array of the program.

    flows: of inputs, whose numbers it has
    number: that it is full of, or None
    counts: the size of the range 0, 1, 2, ... that it is; 0 for none
    origin: parameters that it depends on, a bit each, since late arrays depend on most of thousands
    data: whether it depends on inputs
    """

    flows: frozenset[Flow] = frozenset()
    number: float | None = None
    counts: int = 0
    origin: int = 0
    data: bool = False

    @property
    def constant(self) -> bool:
        """Whether it is the same in every call."""
        return not (self.origin or self.data)


def constant_value(x: Any) -> Value:
    """Return what is clear of an array that is there: something of real numbers alone."""
    if not any(jnp.issubdtype(jnp.result_type(x), kind) for kind in (jnp.integer, jnp.floating)):
        return Value()
    if np.ndim(x) == 0:
        return Value(number=float(x))
    is_range = np.size(x) > 1 and np.size(x) == max(np.shape(x))
    if is_range and np.array_equal(np.ravel(x), np.arange(np.size(x))):
        return Value(counts=np.size(x))
    return Value()


def union(values: Sequence[Value]) -> Value:
    """Return what is clear of an array that is one of `values`, or has all of them in it."""
    first = values[0] if values else Value()
    return Value(
        flows=all_flows(values),
        number=first.number if len(values) == 1 else None,
        counts=first.counts if len(values) == 1 else 0,
        origin=reduce(or_, (value.origin for value in values), 0),
        data=any(value.data for value in values),
    )


def all_flows(values: Iterable[Value]) -> frozenset[Flow]:
    return frozenset().union(*(value.flows for value in values))


@dataclass
class _Evidence:
    """What is noted of an input on the way; `signs`: how what counts grows with it."""

    use: Use = field(default_factory=Use)
    signs: list[int] = field(default_factory=list)


class Notes:
    """What is noted of the inputs of a program while they are followed through it."""

    def __init__(self, names: Iterable[str]):
        self.evidence = {name: _Evidence() for name in names}
        self.within = True  # whether ranges end where the tables do that they index, or before

    def note(self, flow: Flow, **changes: Any) -> None:
        """Record that the input of `flow` is used so."""
        evidence = self.evidence[flow.source]
        evidence.use = replace(evidence.use, **changes)

    def note_table(self, flow: Flow, table: Table) -> None:
        """Record that the input of `flow` indexes `table`."""
        self.note(flow, tables=(*self.evidence[flow.source].use.tables, table))

    def note_sign(self, flow: Flow, sign: int, scores: bool = False) -> None:
        """Record that what counts grows as `sign` times the array of `flow` does."""
        self.note(flow, mask=True, **({"scores": True} if scores else {}))
        self.evidence[flow.source].signs.append(sign * flow.sign)

    def uses(self) -> dict[str, Use]:
        """Return the use of each input."""
        return {
            name: replace(evidence.use, hides=sum(evidence.signs) < 0)
            for name, evidence in self.evidence.items()
        }
