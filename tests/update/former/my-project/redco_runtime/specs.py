"""The table of PartitionSpecs -> trees of specs, checked against the model."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P
from optax import GradientTransformation

from redco_runtime.errors import UserError, listed
from redco_runtime.mesh import axes_of
from redco_runtime.state import TrainState, flatten, owner, rebuild


def parameter_specs(params: Any, table: Mapping[str, P]) -> Any:
    """One spec a parameter, in the structure of `params` (a nested dict of ShapeDtypeStructs).

    table: path, its keys joined by "/" -> spec. Raises UserError that names each parameter without
    a spec, each spec without a parameter, and each that does not fit the mesh in place or a shape.
    """
    mesh = jax.sharding.get_mesh()
    shapes = {path: leaf.shape for path, leaf in flatten(params).items()}
    faults = [f"{path}: a parameter without a spec" for path in shapes if path not in table]
    faults += [f"{path}: a spec without a parameter" for path in table if path not in shapes]
    for path, shape in shapes.items():
        if path in table:
            faults += [f"{path}: {fault}" for fault in misfits(shape, table[path], mesh)]
    if faults:
        todo = (
            "Correct the table there, the sizes of the model in config.py, or those of the mesh: "
        )
        todo += "predict and export take the mesh that train had the last time."
        raise UserError(listed("sharding.py does not fit the model:", faults, todo))
    return rebuild(params, table)


def misfits(shape: tuple[int, ...], spec: P, mesh: Mesh) -> list[str]:
    """What is wrong with a spec for an array of `shape`."""
    if len(spec) != len(shape):
        return [f"{spec} has {len(spec)} entries for the {len(shape)} dims of {shape}"]
    faults = []
    for dim, (size, entry) in enumerate(zip(shape, spec, strict=True)):
        names = axes_of(entry)
        if not {*names} <= mesh.shape.keys():
            faults.append(f"{spec} has an axis that the mesh has not ({', '.join(mesh.shape)})")
        elif size % (parts := math.prod(mesh.shape[name] for name in names)):
            faults.append(f"dim {dim} of {shape} does not divide by {parts} ({'*'.join(names)})")
    return faults


def state_specs(
    optimizer: GradientTransformation, params: Any, specs: Any, moments: Any, variables: Any = None
) -> TrainState:
    """Specs of a whole TrainState.

    An array of the optimizer belongs to the parameter of its shape whose path its own path ends
    with; others, such as counts, are whole. params: ShapeDtypeStructs.  specs: their specs.
    moments: those of what the optimizer keeps of each.  variables: as in TrainState; all whole.
    """
    known, shapes = flatten(moments), flatten(params)

    def place(path: str, leaf: Any) -> P:
        own = owner(path, shapes)
        return known[own] if own and shapes[own].shape == leaf.shape else P()

    opt_state = jax.eval_shape(optimizer.init, params)
    placed = {path: place(path, leaf) for path, leaf in flatten(opt_state).items()}
    whole = jax.tree.map(lambda leaf: P(), variables)
    return TrainState(P(), specs, rebuild(opt_state, placed), whole)


def abstract_state(
    optimizer: GradientTransformation, params: Any, specs: TrainState, variables: Any = None
) -> TrainState:
    """A TrainState of ShapeDtypeStructs that lie on the mesh in place as `specs` say."""

    def make(params: Any, variables: Any) -> TrainState:
        return TrainState(jnp.zeros((), jnp.int32), params, optimizer.init(params), variables)

    return jax.eval_shape(jax.jit(make, out_shardings=specs), params, variables)


def pad(params: Any, multiples: Mapping[str, tuple[int, ...]]) -> Any:
    """`params`, zeros added at the end of dims: each becomes a multiple of what `multiples` says.

    multiples: path of a parameter -> one number a dim; a parameter that it has not is kept.
    """
    leaves = flatten(params)
    for path in multiples.keys() & leaves.keys():
        sizes = zip(leaves[path].shape, multiples[path], strict=True)
        leaves[path] = jnp.pad(leaves[path], [(0, -size % k) for size, k in sizes])
    return rebuild(params, leaves)


def cut(params: Any, shapes: Any) -> Any:
    """What `pad` was given: `params` in the shapes of `shapes`, a tree of the same structure."""

    def shorten(x: jax.Array, like: Any) -> jax.Array:
        return x if x.shape == like.shape else jax.lax.slice(x, [0] * x.ndim, like.shape)

    return jax.tree.map(shorten, params, shapes)
