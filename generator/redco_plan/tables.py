"""Which values are rows that were looked up in a parameter: a table."""

from __future__ import annotations

from redco_plan.apart.forms import ELEMENTWISE
from redco_plan.classes import Classes

# They hand the same data on: what counts is what is done with it next.
VIEWS = {"name", "convert_element_type", "transpose", "reshape", "squeeze", "sharding_constraint"}


def only_looked_up(classes: Classes, index: int) -> bool:
    """Return whether nothing reads a parameter but to look rows up in it."""
    readers = {
        eqn.primitive.name
        for body, eqn, inner in classes.graph.bodies[0].equations()
        if not inner and eqn.primitive.name not in VIEWS
        for atom in eqn.invars
        if (value := body.value(atom)) is not None and value.parameter == index
    }
    return readers == {"gather"}


def rows_of_parameters(classes: Classes) -> dict[int, frozenset[int]]:
    """Return the parameters of which a value is rows, or a sum of them, by the id of the value."""
    tables: dict[int, frozenset[int]] = {}
    for body, eqn, _ in classes.graph.bodies[0].equations():
        operands = [value for atom in eqn.invars if (value := body.value(atom)) is not None]
        of: frozenset[int] = frozenset()
        if eqn.primitive.name == "gather" and operands[0].parameter is not None:
            of = frozenset({operands[0].parameter})
        elif eqn.primitive.name in ELEMENTWISE or eqn.primitive.name == "convert_element_type":
            shaped = [value for value in operands if value.dims and value.data]
            if all(id(value) in tables for value in shaped):
                of = of.union(*(tables[id(value)] for value in shaped))
        if of:
            tables[id(body.values[eqn.outvars[0]])] = of
    return tables
