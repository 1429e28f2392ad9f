"""What the experts of a layer need of a device's memory, beside what `needs` counts for any layer."""

import math
from typing import Any

from jax.extend.core import Jaxpr, jaxprs_in_params

from ..layout.mesh import axes_of
from ..nn.experts.expert_blocks import GPU, TPU, block_rows
from ..nn.experts.expert_rows import most_rows
from .memory_estimate import by_step, bytes_of, makers_of, split_parts


def rooms(body: Jaxpr, layouts: dict[Any, int]) -> dict[tuple[int, ...], float]:
    """Return {(rows of experts,): what a device has room for, as a share of them, less 1}."""
    shares, makers = {}, makers_of(body)
    for one in _grouped(body):
        x_RD, kernels = one.invars[:2]
        if x_RD in layouts and kernels.aval.ndim == 3:
            rows, E = x_RD.aval.shape[0] // layouts[x_RD], kernels.aval.shape[0]
            block = max(block_rows(blocks, rows // E) for blocks in (GPU, TPU))
            apart = _devices_apart(makers.get(kernels))
            shares[x_RD.aval.shape[:1]] = most_rows(rows, E // apart, block, apart) / rows - 1
    return shares


def _devices_apart(maker: Any) -> int:
    """Return over how many devices experts are split, by the equation that lays their kernels out."""
    if maker is None or maker.primitive.name != "sharding_constraint":
        return 1
    place = maker.params["sharding"]
    return math.prod(place.mesh.shape[axis] for axis in axes_of(place.spec[0]))


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
