"""Which arrays of a batch are ids of rows of a parameter, by the traced step, and of how many.

For an id beyond them a device takes another row, or NaN, and says nothing: the host looks, in each batch.
"""

from collections.abc import Mapping
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxprs_in_params
from jax.lax import GatherScatterMode

from ..base.state import ModelState, PyTree, TrainState, flatten

# What leaves each row of a table where it is; and what leaves ids as they are, some of them or in another order.
KEPT = {"convert_element_type", "copy", "pad", "pvary", "sharding_constraint", "slice"}
MOVED = {
    "broadcast_in_dim",
    "concatenate",
    "dynamic_slice",
    "reshape",
    "rev",
    "squeeze",
    "transpose",
}


def tables_of(
    step: ClosedJaxpr, state: TrainState | ModelState, batch: PyTree, shapes: Mapping[str, Any]
) -> dict[str, int]:
    """Return how many rows the ids in each array of a batch may pick from, by its name: those of the smallest table.

    step: the program of (state, batch, whatever else). shapes: of all parameters by path, without padding.
    """
    rows = {path: leaf.shape[0] for path, leaf in shapes.items() if len(leaf.shape) == 2}
    facts = {}
    for var, path in zip(step.jaxpr.invars, flatten((state, batch)), strict=False):
        which, _, name = path.partition("/")
        facts[var] = rows.get(name.partition("/")[2]) if which == "0" else name
    return _picked(step.jaxpr, facts)


def _picked(jaxpr: Jaxpr, facts: dict[Any, Any]) -> dict[str, int]:
    """Return the same of a program. facts: of variables, the name of ids or the rows of a table; what follows is added.

    Ids that a mask or a sum changes are none any more, but for those below 0, which count from the end. Nor are those
    that are clipped to the table, by jnp.take(mode="clip").
    """
    tables: dict[str, int] = {}
    for eqn in jaxpr.eqns:
        kind, values = eqn.primitive.name, [_value(facts, atom) for atom in eqn.invars]
        pairs: list[tuple[str, int]] = []
        for body in jaxprs_in_params(eqn.params):
            if len(body.invars) == len(values):
                inner = dict(zip(body.invars, values, strict=True))
                pairs += _picked(body, inner).items()
                leaving = (_value(inner, atom) for atom in body.outvars)
                facts |= zip(eqn.outvars, leaving, strict=False)
        own = next((value for value in values if value is not None), None)
        if kind == "gather" and eqn.params["dimension_numbers"].start_index_map == (0,):
            clipped = eqn.params["mode"] == GatherScatterMode.CLIP
            if not clipped and isinstance(values[0], int) and isinstance(values[1], str):
                pairs.append((values[1], values[0]))
        elif kind == "add" and isinstance(own, str) and isinstance(eqn.invars[1], Literal):
            facts[eqn.outvars[0]] = (own,)  # from the end, where `select_n` takes it beside the ids
        elif kind in KEPT or (isinstance(own, str) and kind in MOVED):
            facts[eqn.outvars[0]] = own
        elif kind == "select_n" and values[2:] == [(values[1],)]:
            facts[eqn.outvars[0]] = values[1]
        for name, rows in pairs:
            tables[name] = min(rows, tables.get(name, rows))
    return tables


def _value(facts: Mapping[Any, Any], atom: Any) -> Any:
    return None if isinstance(atom, Literal) else facts.get(atom)
