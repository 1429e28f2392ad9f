"""What a class of the user's own says about its sharding, which redco lays out anew."""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx
from jax.extend.core import Jaxpr, jaxprs_in_params

from redco_new.request.mesh import AXES

# A mesh as a project has it. Its axes have two devices each: classes leave axes of one alone.
MESH = jax.sharding.AbstractMesh((2,) * len(AXES), tuple(AXES))
PRIMITIVES = {"sharding_constraint", "reshard", "mesh_cast"}  # of JAX, that place an array


def names_in_variables(model: nnx.Module) -> set[str]:
    """Return the names of axes that the shardings of a model's variables have."""
    names: set[str] = set()
    for _, variable in nnx.iter_graph(model):
        if isinstance(variable, nnx.Variable):
            names.update(_axis_names(variable.get_metadata().get("out_sharding")))
    return names


def _axis_names(sharding: Any) -> set[str]:
    """Return the names of axes in a PartitionSpec, a tuple of names, or what holds one."""
    if isinstance(sharding, str):
        return {sharding}
    entries = getattr(getattr(sharding, "sharding", sharding), "spec", sharding)
    return set().union(*map(_axis_names, entries)) if entries else set()


def places_arrays(jaxpr: Jaxpr) -> bool:
    """Return whether a program says where an array of it lies."""
    return any(
        _places(eqn) or any(map(places_arrays, jaxprs_in_params(eqn.params))) for eqn in jaxpr.eqns
    )


def _places(eqn: Any) -> bool:
    """Return whether an equation does; not by `reshard` to no axis, which jax.random has and does nothing."""
    anywhere = eqn.primitive.name == "reshard" and not _axis_names(eqn.params["dst_sharding"])
    return eqn.primitive.name in PRIMITIVES and not anywhere
