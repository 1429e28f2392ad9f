"""What the experts of a layer need of a device's memory, beside what `needs` counts for any layer."""

from typing import Any

from jax.extend.core import Jaxpr, jaxprs_in_params

from ..nn.experts.expert_blocks import room
from .jaxprs import by_step, bytes_of, makers_of, split_parts


def rooms(body: Jaxpr, layouts: dict[Any, int]) -> dict[tuple[int, ...], float]:
    """Return {(rows of experts,): those that fill up the blocks of rows, as a share of them}."""
    shares = {}
    for one in _grouped(body):
        if (x_RD := one.invars[0]) in layouts:
            rows = x_RD.aval.shape[0] // layouts[x_RD]
            shares[x_RD.aval.shape[:1]] = room(rows, one.invars[1].aval.shape[0]) / rows
    return shares


def working_size(eqn: Any) -> tuple[int, int]:
    """Return what a layer's experts work with besides what it names, and the bytes of their parameters.

    On a device: of each kernel two, as it is sent and as it is multiplied, in the dtype that is computed
    in, whose places its gradient takes later; the rows that go to experts and come back, with gradients.
    """
    (body,) = jaxprs_in_params(eqn.params)
    makers = makers_of(body)
    layouts = split_parts(eqn, body, makers)
    stored = {inner for inner, _ in by_step(body.invars, eqn.invars)}
    size, parameters, rows = 0, 0, set()
    for one in _grouped(body):
        x, kernels, y = one.invars[0], one.invars[1], one.outvars[0]
        rows |= {x, y} & {*layouts}
        if kernels not in layouts:  # stored in few bits: what they take is the least of it
            continue
        size += 2 * bytes_of(kernels) // layouts[kernels]
        while kernels in makers and kernels not in stored:
            kernels = makers[kernels].invars[0]
        parameters += bytes_of(kernels) if kernels in stored else 0
    shares = rooms(body, layouts)
    for var in rows:
        size += int(2 * bytes_of(var) * (1 + shares[var.aval.shape[:1]])) // layouts[var]
    return size, parameters


def _grouped(body: Jaxpr) -> list[Any]:
    """Return the products of groups of rows, each with a kernel of its own: those of experts."""
    return [eqn for eqn in body.eqns if eqn.primitive.name == "ragged_dot_general"]
