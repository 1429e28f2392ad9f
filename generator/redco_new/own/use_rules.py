"""What the primitives of JAX do with an input: what is noted of it, and where its numbers go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from jax.extend.core import JaxprEqn

from redco_new.own.flows import Flow, Notes, Table, Value, all_flows

# A mask becomes a summand of scores by a factor of this size or more: 1e4 is what fits float16, and
# programs that mask have 1e9, 1e10 or the lowest number of a dtype.
MASKING = 1e4
EQUALITIES, ORDERS = frozenset(("eq", "ne")), frozenset(("lt", "le", "gt", "ge"))


def _pairs(operands: list[Value]) -> tuple[tuple[Value, Value, int], ...]:
    """Return (operand, the other, sign): 1 for the first, -1 for the second."""
    first, second = operands
    return (first, second, 1), (second, first, -1)


def _gather(notes: Notes, eqn: JaxprEqn, operands: list[Value]) -> frozenset[Flow]:
    """Record what is indexed, but of several dims at once, where it is not clear which; what is taken out of an input are its numbers."""
    array, indices = operands[:2]
    dims, aval = eqn.params["dimension_numbers"].start_index_map, cast(Any, eqn.invars[0].aval)
    rows = min((aval.shape[dim] for dim in dims), default=1)
    notes.within &= indices.counts <= rows
    for flow in indices.flows:
        if array.constant:
            notes.note(flow, positions=True)
        if flow.offset is not None and len({aval.shape[dim] for dim in dims}) == 1:
            table = Table(rows - max(int(flow.offset), 0), aval.size // rows, array.origin)
            notes.note_table(flow, table)
    return array.flows


def _compare(notes: Notes, eqn: JaxprEqn, operands: list[Value]) -> frozenset[Flow]:
    """Record what an input is compared with: a number, a range (as in one-hot codes), itself."""
    name, flows = eqn.primitive.name, set()
    for this, other, side in _pairs(operands):
        for flow in this.flows:
            notes.note(flow, mask=True)
            if name in EQUALITIES and any(flow.source == f.source for f in other.flows):
                notes.note(flow, segments=True)
            elif other.counts and flow.offset == 0 and name in EQUALITIES:
                notes.note_table(flow, Table(other.counts, 0))
            elif other.counts and flow.offset == 0:
                notes.note(flow, length=other.counts)
            grows = side if name in ORDERS else 1
            if name in ("lt", "le") or (name == "eq" and other.number == 0):
                grows = -grows
            flows.add(Flow(flow.source, flow.sign * grows, None))
    return frozenset(flows)


def _select(notes: Notes, eqn: JaxprEqn, operands: list[Value]) -> frozenset[Flow]:
    """Record what a condition hides; keep the numbers of what it chooses from."""
    condition, *cases = operands
    counts = [_case_counts(case) for case in cases]
    for flow in condition.flows if len(cases) == 2 else ():
        notes.note(flow, mask=True)
        if counts[0] != counts[1]:
            notes.note_sign(flow, 1 if counts[1] > counts[0] else -1, scores=min(counts) == -2)
    flows: dict[str, Flow] = {}
    for flow in sorted(
        all_flows(cases), key=lambda f: np.inf if f.offset is None else abs(f.offset)
    ):
        flows.setdefault(
            flow.source, flow
        )  # an index below 0 counts from the end: it plus the rows
    return frozenset(flows.values())


def _case_counts(case: Value) -> int:
    """Return how much a case counts: -2 for the lowest scores, -1 for zeros, 0 for others."""
    if case.number is None:
        return 0
    return -2 if case.number <= -MASKING else -1 if case.number == 0 else 0


def _add(notes: Notes, eqn: JaxprEqn, operands: list[Value]) -> frozenset[Flow]:
    """Keep the numbers of an input to which a constant is added, or the other way round."""
    minus, flows = eqn.primitive.name == "sub", set()
    for this, other, side in _pairs(operands):
        for flow in this.flows if other.constant else ():
            sign, offset = -1 if minus and side == -1 else 1, None
            if flow.offset is not None and other.number is not None and sign == 1:
                offset = flow.offset + (-other.number if minus else other.number)
            flows.add(Flow(flow.source, flow.sign * sign, offset))
    return frozenset(flows)


def _multiply(notes: Notes, eqn: JaxprEqn, operands: list[Value]) -> frozenset[Flow]:
    """Record what an input is a factor of; keep what a constant scales."""
    flows = set()
    for this, other, _ in _pairs(operands):
        for flow in this.flows:
            same = any(flow.source == f.source for f in other.flows)
            if other.constant or same:  # a mask of pairs is that of one times that of the other
                sign = -1 if (other.number or 1) < 0 else 1
                flows.add(Flow(flow.source, flow.sign * sign, None))
                if abs(other.number or 0) >= MASKING:
                    notes.note_sign(flow, sign, scores=True)
            elif other.data and eqn.primitive.name == "mul":
                notes.note_sign(flow, 1)
    return frozenset(flows)


def _turn(notes: Notes, eqn: JaxprEqn, operands: list[Value]) -> frozenset[Flow]:
    """Return the flows of what falls where its operand grows."""
    return frozenset(Flow(f.source, -f.sign, None) for f in operands[0].flows)


def _rotate(notes: Notes, eqn: JaxprEqn, operands: list[Value]) -> frozenset[Flow]:
    """Record that an input is a factor of an angle."""
    for flow in operands[0].flows:
        notes.note(flow, positions=True)
    return frozenset()


def _bound(notes: Notes, eqn: JaxprEqn, operands: list[Value]) -> frozenset[Flow]:
    """Keep the numbers of an input that is at least, or at most, something."""
    return all_flows(operands)


def _condition(notes: Notes, eqn: JaxprEqn, operands: list[Value]) -> frozenset[Flow]:
    """Record that an input is one of several conditions."""
    for flow in all_flows(operands):
        notes.note(flow, mask=True)
    return frozenset(Flow(f.source, f.sign, None) for f in all_flows(operands))


Rule = Callable[[Notes, JaxprEqn, list[Value]], frozenset[Flow]]
RULES: Mapping[str, Rule] = {
    "gather": _gather,
    "select_n": _select,
    **dict.fromkeys(EQUALITIES | ORDERS, _compare),
    **dict.fromkeys(("add", "add_any", "sub"), _add),
    **dict.fromkeys(("mul", "div", "dot_general"), _multiply),
    **dict.fromkeys(("not", "neg"), _turn),
    **dict.fromkeys(("sin", "cos"), _rotate),
    **dict.fromkeys(("max", "min"), _bound),
    **dict.fromkeys(("and", "or", "reduce_and", "reduce_or", "reduce_sum", "cumsum"), _condition),
}
