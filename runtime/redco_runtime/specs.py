"""The table of PartitionSpecs -> trees of specs, checked against the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from redco_runtime.errors import UserError
from redco_runtime.state import TrainState


def parameter_specs(params: Any, table: Mapping[str, P]) -> Any:
    """One spec a parameter, in the structure of `params` (a nested dict of ShapeDtypeStructs).

    table: path, its keys joined by "/" -> spec.
    Raises UserError that names each parameter without a spec, each spec without a parameter, and
    each spec that does not fit the shape of its parameter or the mesh in place (jax.set_mesh).
    """
    mesh = jax.sharding.get_mesh()
    leaves, treedef = jax.tree_util.tree_flatten_with_path(params)
    shapes = {"/".join(str(key.key) for key in path): leaf.shape for path, leaf in leaves}
    faults = [f"{path}: a parameter without a spec" for path in shapes if path not in table]
    faults += [f"{path}: a spec without a parameter" for path in table if path not in shapes]
    for path, shape in shapes.items():
        if path in table:
            faults += [f"{path}: {fault}" for fault in misfits(shape, table[path], mesh)]
    if faults:
        raise UserError(
            "sharding.py does not fit the model:\n  " + "\n  ".join(faults) + "\n"
            "Correct the table PARAMS there, or the sizes of the model in config.py."
        )
    return jax.tree_util.tree_unflatten(treedef, [table[path] for path in shapes])


def misfits(shape: tuple[int, ...], spec: P, mesh: Mesh) -> list[str]:
    """What is wrong with a spec for an array of `shape`."""
    if len(spec) != len(shape):
        return [f"{spec} has {len(spec)} entries for the {len(shape)} dims of {shape}"]
    faults = []
    for dim, (size, entry) in enumerate(zip(shape, spec, strict=True)):
        names = (entry,) if isinstance(entry, str) else entry or ()
        parts = 1
        for name in names:
            parts *= mesh.shape[name]
        if size % parts:
            faults.append(f"dim {dim} of {shape} does not divide by {parts} ({'*'.join(names)})")
    return faults


def state_specs(optimizer: optax.GradientTransformation, params: Any, specs: Any) -> TrainState:
    """Specs of a whole TrainState: what the optimizer keeps of a parameter lies where that lies.

    An array of the optimizer belongs to the parameter of its shape whose path its own path ends
    with; others, such as counts, are whole. params: ShapeDtypeStructs.  specs: their specs.
    """
    leaves = jax.tree.leaves_with_path(params)
    known = {
        (path, leaf.shape): spec
        for (path, leaf), spec in zip(leaves, jax.tree.leaves(specs), strict=True)
    }

    def place(path: tuple[Any, ...], leaf: Any) -> P:
        ends = (path[i:] for i in range(len(path)))
        return next((known[end, leaf.shape] for end in ends if (end, leaf.shape) in known), P())

    opt_state = jax.tree_util.tree_map_with_path(place, jax.eval_shape(optimizer.init, params))
    return TrainState(step=P(), params=specs, opt_state=opt_state)


def abstract_state(
    optimizer: optax.GradientTransformation, params: Any, specs: TrainState
) -> TrainState:
    """A TrainState of ShapeDtypeStructs that lie on the mesh in place as `specs` say."""
    mesh = jax.sharding.get_mesh()
    step = jax.ShapeDtypeStruct((), "int32")
    shapes = TrainState(step, params, jax.eval_shape(optimizer.init, params))

    def place(leaf: Any, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec))

    return jax.tree.map(place, shapes, specs)
