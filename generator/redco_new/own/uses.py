"""What a traced program does with each of its inputs: index a table, mask, rotate by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxprs_in_params

from redco_new.own.flows import Flow, Notes, Value, constant_value, union
from redco_new.own.use_rules import RULES

# What has the numbers of its operands in it, each in some place.
MOVES = frozenset("""broadcast_in_dim clamp concatenate convert_element_type copy dynamic_slice
    dynamic_update_slice expand_dims optimization_barrier pad reduce_precision reshape rev scatter
    sharding_constraint slice split squeeze stop_gradient transpose""".split())


def find_uses(program: ClosedJaxpr, inputs: Sequence[str], parameters: Sequence[bool]) -> Notes:
    """Return what a program does with each of its inputs, by name.

    inputs: for each argument of the program, the name of the input that it is, or ""
    parameters: for each argument, whether it is a parameter
    """
    walk = _Walk(Notes(filter(None, inputs)))
    arguments = [
        (
            Value(flows=frozenset({Flow(name)}), data=True)
            if name
            else Value(origin=1 << index if parameter else 0)
        )
        for index, (name, parameter) in enumerate(zip(inputs, parameters, strict=True))
    ]
    walk.run(program.jaxpr, arguments, [constant_value(x) for x in program.consts])
    return walk.notes


class _Walk:
    """Follow inputs through a program, and record what becomes of them in `notes`."""

    def __init__(self, notes: Notes):
        self.notes = notes

    def run(
        self, jaxpr: Jaxpr, arguments: Sequence[Value], constants: Sequence[Value] = ()
    ) -> list[Value]:
        """Return what is clear of the results of `jaxpr`."""
        values: dict[Any, Value] = dict(zip(jaxpr.invars, arguments, strict=True))
        values |= dict(zip(jaxpr.constvars, constants, strict=False))

        def read(atom: Any) -> Value:
            return (
                constant_value(atom.val) if isinstance(atom, Literal) else values.get(atom, Value())
            )

        for eqn in jaxpr.eqns:
            results = self._results(eqn, [read(atom) for atom in eqn.invars])
            values.update(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _results(self, eqn: JaxprEqn, operands: list[Value]) -> list[Value]:
        """Return what is clear of the results of an equation."""
        name = eqn.primitive.name
        if (results := self._run_inner(eqn, operands)) is not None:
            return results
        if name == "iota":
            return [Value(counts=eqn.params["shape"][eqn.params["dimension"]])]
        result = union(operands)
        if name not in MOVES:
            rule = RULES.get(name)
            flows = rule(self.notes, eqn, operands) if rule else frozenset()
            # What is chosen is the first where indices below 0 are turned: ranges have none.
            counts = operands[1].counts if name == "select_n" else 0
            result = replace(result, flows=flows, number=None, counts=counts)
        return [result] * len(eqn.outvars)

    def _run_inner(self, eqn: JaxprEqn, operands: list[Value]) -> list[Value] | None:
        """Return the results of an equation that runs a program; None for one that runs none."""
        name, inner = eqn.primitive.name, list(jaxprs_in_params(eqn.params))
        if name == "cond":
            runs = [self.run(branch, operands[1:]) for branch in inner]
            return [union(results) for results in zip(*runs, strict=True)]
        if name == "while":
            skip = eqn.params["cond_nconsts"]
            return self.run(eqn.params["body_jaxpr"].jaxpr, operands[skip:])
        for jaxpr in inner:  # of a custom derivative, the function itself comes first
            if len(jaxpr.invars) == len(operands) and len(jaxpr.outvars) == len(eqn.outvars):
                return self.run(jaxpr, operands)
        return None
