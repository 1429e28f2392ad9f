"""The tables of sharding.py -> specs of all that steps work with, checked against the model."""

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from ..base.messages import UserError, listed
from ..base.state import ModelState, PyTree, TrainState, dims_of, flatten, owner, rebuild
from .mesh import axes_of

HOST = "pinned_host"  # the memory of a host that its devices read and write


def parameter_specs(params: PyTree, table: Mapping[str, P]) -> PyTree:
    """Return one spec a parameter, in the structure of `params`, ShapeDtypeStructs in nested dicts.

    table: path, its keys joined by "/" -> spec. Specs of layers that a smaller model has not are left
    out. Raises UserError that names each parameter without a spec, with the specs that may be meant
    for it, and each that does not fit the mesh in place or a shape.
    """
    mesh = jax.sharding.get_mesh()
    shapes = {path: leaf.shape for path, leaf in flatten(params).items()}
    faults = [f"{path}: a parameter without a spec" for path in shapes if path not in table]
    if faults:
        faults += [f"{path}: a spec without a parameter" for path in table if path not in shapes]
    for path, shape in shapes.items():
        if path in table:
            faults += [f"{path}: {fault}" for fault in misfits(shape, table[path], mesh)]
    if faults:
        todo = (
            "`redco update` works the table out anew, for another mesh with --mesh AXIS=N,...; or correct it there, or the "
            "sizes of the model in config.py. predict and export take the mesh that train had the last time."
        )
        raise UserError(listed("sharding.py does not fit the model:", faults, todo))
    return rebuild(params, table)


def misfits(shape: tuple[int, ...], spec: P, mesh: Mesh) -> list[str]:
    """Return what is wrong with a spec for an array of `shape`."""
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


def state_specs(state: TrainState, table: Mapping[str, P], moments: Mapping[str, P]) -> TrainState:
    """Return the specs of a whole state.

    An array of the optimizer belongs to the parameter whose path its own path ends with: it is split
    in the dims that it has of that parameter, all, or some where it is a mean over the others, as in
    Adafactor. What else there is, such as counts, is whole, and so are the variables.
    state: of ShapeDtypeStructs.
    table: of its parameters, as `parameter_specs` has it, which raises UserError.
    moments: table of what the optimizer keeps of each parameter; {} where it lies as they do.
    """
    shapes, parameters = flatten(state.params), parameter_specs(state.model.parameters, table)
    moment_specs = flatten(parameter_specs(state.params, moments)) if moments else parameters

    def choose(path: str, leaf: jax.Array) -> P:
        part, _, rest = path.partition("/")
        if part in ("params", "ema", "frozen"):
            return parameters[rest]
        name = owner(rest, shapes) if part == "opt_state" else ""
        dims = dims_of(leaf.shape, shapes[name].shape) if name else None
        return P(*(moment_specs[name][dim] for dim in dims)) if dims else P()

    return rebuild(state, {path: choose(path, leaf) for path, leaf in flatten(state).items()})


def place_abstract(tree: PyTree, specs: PyTree) -> PyTree:
    """Return ShapeDtypeStructs like those of `tree`, which lie on the mesh in place as `specs` say."""
    mesh = jax.sharding.get_mesh()
    return jax.tree.map(lambda x, spec: x.update(sharding=NamedSharding(mesh, spec)), tree, specs)


def constrain(params: PyTree, table: Mapping[str, P]) -> PyTree:
    """Return `params`, laid out by `table`: path -> spec; as they are where it is empty."""
    return jax.lax.with_sharding_constraint(params, rebuild(params, table)) if table else params


def pad(model: ModelState, multiples: Mapping[str, tuple[int, ...]]) -> ModelState:
    """Return a model, zeros added at the end of dims, which become multiples of these numbers.

    multiples: path of a parameter -> one number a dim; a parameter that it has not stays as it is.
    """
    leaves = model.arrays
    for path in multiples.keys() & leaves.keys():
        if leaves[path].ndim == len(multiples[path]):  # else parameter_specs says what is wrong
            sizes = zip(leaves[path].shape, multiples[path], strict=True)
            leaves[path] = jnp.pad(leaves[path], [(0, -size % k) for size, k in sizes])
    return model.with_arrays(leaves)


def cut(model: PyTree, shapes: PyTree) -> PyTree:
    """Return what `pad` was given: arrays in the shapes of a tree of the same structure.

    In a shard_map a device's part of a dim, which `pad` leaves as it is, may be shorter.
    """

    def shorten(x: jax.Array, like: jax.ShapeDtypeStruct) -> jax.Array:
        sizes = [*map(min, x.shape, like.shape)]
        return x if x.shape == (*sizes,) else jax.lax.slice(x, [0] * x.ndim, sizes)

    return jax.tree.map(shorten, model, shapes)


def gradient_size(state: TrainState, micro_batches: int) -> int:
    """Return the bytes on each device of the gradients of a micro-batch, and of their sum; stages sum too."""
    sums = micro_batches > 1 or "stage" in jax.sharding.get_abstract_mesh().shape
    return size_on_device(state.params) * (1 + sums)


def size_on_device(abstract: PyTree) -> int:
    """Return the bytes on each device of ShapeDtypeStructs with shardings, without what lies on the host."""
    leaves = [x for x in jax.tree.leaves(abstract) if x.sharding.memory_kind != HOST]
    return sum(map(shard_bytes, leaves))


def shard_bytes(leaf: jax.ShapeDtypeStruct) -> int:
    """Return how much one device holds of an array."""
    return math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
