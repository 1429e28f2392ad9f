"""The tensors of a checkpoint's folder, by name, as Orbax has them, and how they differ from those of a model.

What is frozen lies in a folder apart. Several hosts read each part by one of them, and then send it to where the
tensors are to lie: else a tensor that is whole on each host is read by all. Orbax reads parts as they were written,
so that one that was split otherwise is read by all hosts too: N times the state.
"""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache, partial
from math import ceil, gcd, prod
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from ..base.messages import MOST_LINES, first
from ..base.state import dims_of, owner
from ..base.together import patience
from .checksums import check_sums, verified

ITEM = "default"  # what Orbax calls the only item of a checkpoint
SMALL = 2**20  # bytes: what is less is read by all hosts sooner than it is moved
FROZEN = "frozen/"  # how the names of frozen parameters begin, and the folder that has them

Flat = Mapping[str, Any]  # name -> leaf, as `flatten` makes it
ABSENT = "absent"
Tensors = Mapping[str, str]  # name in a state, such as params/head/kernel -> dtype and shape


def divide(leaves: Flat) -> tuple[Flat, Flat]:
    """Return (those that are frozen, by path, the others by name)."""
    frozen = {k.removeprefix(FROZEN): v for k, v in leaves.items() if k.startswith(FROZEN)}
    return frozen, {k: v for k, v in leaves.items() if not k.startswith(FROZEN)}


def heads(folders: Sequence[Path], parts: tuple[str, ...]) -> tuple[Flat, Flat]:
    """Return (tensors whose names begin so, path of a parameter -> shape without padding).

    Raises Damaged where a folder is not as it was written: of the tensors, those who read them find that out.
    """
    stored, shapes = dict[str, Any](), dict[str, Any]()
    for folder, prefix in zip(folders, ("", FROZEN), strict=False):
        metadata = verified(folder / ITEM, partial(_head, folder))
        stored |= {prefix + path: leaf for path, leaf in metadata.tree.items()}
        shapes |= metadata.custom_metadata or {}
    return {name: leaf for name, leaf in stored.items() if name.startswith(parts)}, shapes


def bare(stored: Flat, names: Mapping[str, str], shapes: Flat) -> Flat:
    """Return path -> what is stored by its name, without padding where that is known."""
    parts = ((p, stored[name], shapes.get(name.partition("/")[2])) for p, name in names.items())
    return {p: jax.ShapeDtypeStruct(tuple(own or x.shape), x.dtype) for p, x, own in parts}


def _head(folder: Path) -> Any:
    check_sums(folder)
    with closing(orbax().PyTreeCheckpointHandler()) as reader:
        return reader.metadata(folder / ITEM)


def trained_before(wanted: Flat, stored: Flat, shapes: Flat) -> tuple[dict[str, str], Flat]:
    """Return (variable -> what is stored of it, where an earlier version trained it, and the rest of `stored`).

    shapes: of the parameters that are stored, without padding. What their optimizer kept is left out.
    """
    names = dict[str, str]()
    for path, leaf in wanted.items():
        part, _, rest = path.partition("/")
        former = [name for name in (f"params/{rest}", f"ema/{rest}") if name in stored]
        if part == "variables" and path not in stored and former:
            if tuple(shapes.get(rest, stored[former[0]].shape)) == leaf.shape:
                names[path] = former[0]
    paths = {path.partition("/")[2] for path in names}
    return names, {name: leaf for name, leaf in stored.items() if not owner(name, paths)}


def read(folders: Sequence[Path], wanted: Flat) -> Flat:
    """Read the tensors that are `wanted`; of a dim that is longer there or here, what differs is padding."""
    frozen, others = divide(wanted)
    leaves = {**_read_one(folders[0], others)} if others else {}
    if frozen:
        leaves |= {FROZEN + path: leaf for path, leaf in _read_one(folders[1], frozen).items()}
    return leaves


def is_later(name: str) -> bool:
    """Return whether former checkpoints may lack it, which was 0: a mean of norms, a reference's adapter."""
    return name == "grad_norm" or (
        name.startswith(FROZEN) and name.endswith(("/lora_a", "/lora_b"))
    )


def names_of_other(wanted: Flat, stored: Flat) -> dict[str, str]:
    """Return name of a tensor of a model -> that of the same one in the checkpoint of another recipe; {} if none fits.

    There a model may be a branch of several, where here it is alone, or the other way round, or have another
    name, and parameters may be frozen that are trained here. Of several, it is the one that was trained.
    """
    trained_last = sorted(stored, key=lambda name: not name.startswith(FROZEN))
    whole = {name.partition("/")[2]: name for name in trained_last}
    of_branch = {path.partition("/")[2]: name for path, name in whole.items()}
    paths = {name: name.partition("/")[2] for name in wanted}
    bare = {name: path.partition("/")[2] for name, path in paths.items()}
    for here in (paths, bare):
        for there in (whole, of_branch):
            if here and there.keys() >= {*here.values()}:
                return {name: there[path] for name, path in here.items()}
    return {}


def read_as(folders: Sequence[Path], wanted: Flat, names: Mapping[str, str]) -> Flat:
    """Read the tensors that are `wanted`, each by its name there, which several may share."""
    leaves, left = dict[str, Any](), dict(names)
    while left:
        now = {there: here for here, there in left.items()}
        part = read(folders, {there: wanted[here] for there, here in now.items()})
        leaves |= {here: part[there] for there, here in now.items()}
        left = {here: there for here, there in left.items() if here not in leaves}
    return leaves


def _read_one(folder: Path, wanted: Flat) -> Flat:
    def take() -> tuple[Flat, dict[str, Any]]:
        item = wanted
        with closing(orbax().PyTreeCheckpointHandler()) as reader:
            if jax.process_count() > 1:  # else there is nothing to share out
                stored = reader.metadata(place).tree
                item = {k: to_read(leaf, _part(leaf, stored[k])) for k, leaf in wanted.items()}
            restore = orbax().checkpoint_utils.construct_restore_args(item, strict=False)
            arguments = orbax().args.PyTreeRestore(item, restore_args=restore, partial_restore=True)
            return item, reader.restore(place, args=arguments)

    place = folder / ITEM
    item, leaves = verified(place, take)
    elsewhere = sorted(name for name, leaf in wanted.items() if item[name] is not leaf)
    return leaves | {name: move(leaves.pop(name), wanted[name].sharding) for name in elsewhere}


def _part(leaf: Any, stored: Any) -> tuple[int, ...] | None:
    """Return the shape of what was written as one; None where what differs of the shapes is padding."""
    same = leaf.shape == stored.shape and stored.storage
    return stored.storage.write_shape if same else None


def to_read(leaf: Any, part: tuple[int, ...] | None) -> Any:
    """Return `leaf`, a ShapeDtypeStruct, with the sharding to read it to.

    part: the shape of what is read as one; None where that is not known.
    """
    alone = jax.process_count() == 1 or not isinstance(leaf.sharding, NamedSharding)
    if alone or not part or leaf.size * leaf.dtype.itemsize < SMALL:
        return leaf
    choices = [leaf.sharding, *_splits(leaf.sharding, leaf.shape, part)]
    return leaf.update(sharding=min(choices, key=lambda one: _reads(one, leaf.shape, part)))


def move(array: jax.Array, sharding: Sharding) -> jax.Array:
    """Return an array on the devices as `sharding` has it: the devices send each other what they have read."""
    return array if array.sharding == sharding else _mover(sharding)(array)


@cache
def _mover(sharding: Sharding) -> Any:
    return jax.jit(lambda x: x, out_shardings=sharding)


def _splits(
    there: NamedSharding, shape: tuple[int, ...], part: tuple[int, ...]
) -> Iterator[NamedSharding]:
    """Yield splits over the same devices, in their order, in which each has whole parts: copies lie beside each other, or apart."""
    left, factors = there.mesh.devices.size, list[int]()
    for dim, size in zip(shape, part, strict=True):
        factors.append(gcd(left, dim // size) if dim % size == 0 else 1)
        left //= factors[-1]
    names = [f"dim {i}" for i in range(len(shape))]
    for sizes, axes in (
        ((*factors, left), [*names, "copies"]),
        ((left, *factors), ["copies", *names]),
    ):
        yield NamedSharding(Mesh(there.mesh.devices.reshape(sizes), axes), PartitionSpec(*names))


def _reads(sharding: Sharding, shape: tuple[int, ...], part: tuple[int, ...]) -> int:
    """Return how many parts all processes read, together: one that two shards have in part is read twice."""
    indices: Mapping[Any, Any] = sharding.devices_indices_map(shape)
    shards = {
        (device.process_index, *(at.indices(dim)[:2] for at, dim in zip(index, shape, strict=True)))
        for device, index in indices.items()
    }
    return sum(
        prod(
            ceil(stop / size) - start // size for (start, stop), size in zip(box, part, strict=True)
        )
        for _, *box in shards
    )


@cache
def orbax() -> Any:
    """Import the package: late, since it takes 0.6 s, and without its log. What goes wrong is raised."""
    import orbax.checkpoint
    from absl import flags
    from orbax.checkpoint._src.multihost import multihost
    from orbax.checkpoint._src.serialization import tensorstore_utils

    # Its processes meet by JAX's coordinator: a collective of the devices has no end where one stays away.
    flags.FLAGS.mark_as_parsed()
    flags.FLAGS["experimental_orbax_use_distributed_barrier"].value = True
    multihost._DEFAULT_BARRIER_TIMEOUT = patience()  # it has no name for it, and 300 s
    plain = tensorstore_utils._build_zarr3_metadata

    def with_checksums(*about: Any) -> Any:
        metadata = plain(*about)
        metadata["codecs"][0]["configuration"]["codecs"].append({"name": "crc32c"})
        return metadata

    tensorstore_utils._build_zarr3_metadata = with_checksums  # of each part; it has no option
    logging.getLogger("absl").addFilter(lambda record: "/orbax/checkpoint/" not in record.pathname)
    # Of a write or a read that fails, these tell the same once a tensor: asyncio, TensorStore of its loop, and Orbax's coroutines.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    before = sys.unraisablehook
    repeats = ("Event loop is closed", "Encountered error while reading array index")
    sys.unraisablehook = lambda fault: (
        None if str(fault.exc_value).startswith(repeats) else before(fault)
    )
    return orbax.checkpoint


def describe(leaves: Mapping[str, Any], shapes: Mapping[str, Any]) -> Tensors:
    """Return the dtype of each leaf of a state and its shape without padding.

    shapes: path of a parameter -> that shape of it, and so of what the optimizer keeps of it.
    """
    tensors = {}
    for path, leaf in leaves.items():
        own, shape = owner(path, shapes), leaf.shape
        names = (f"{part}/{own}" for part in ("params", "ema", "frozen"))
        whole = next((leaves[name] for name in names if name in leaves), None)
        if own and whole is not None and (dims := dims_of(shape, whole.shape)):
            shape = tuple(shapes[own][dim] for dim in dims)
        tensors[path] = f"{np.dtype(leaf.dtype).name}{list(shape)}"
    return tensors


def differences(there: Tensors, here: Tensors) -> list[str]:
    """Return a line a tensor that differs: of each kind of difference, as many as fit a screen.

    What the optimizer keeps of a parameter follows it, and has one line for all of them otherwise.
    """
    every, kinds = sorted({**there, **here}), dict[tuple[bool, ...], dict[str, None]]()
    differing = [path for path in every if there.get(path) != here.get(path)]
    params = {path.removeprefix("params/") for path in every if path.startswith("params/")}
    for path in differing:
        parameter = path.startswith(("opt_state/", "ema/")) and owner(path, params)
        name, sides = path.removeprefix("params/"), [x.get(path, ABSENT) for x in (there, here)]
        if parameter:
            name = path.removesuffix(parameter) + "*"
            sides = [side.partition("[")[0] for side in sides]
        if not (parameter and f"params/{parameter}" in differing):
            lines = kinds.setdefault((bool(parameter), *(side == ABSENT for side in sides)), {})
            lines[f"{name}: {sides[0]} there, {sides[1]} in the model"] = None
    most = MOST_LINES // max(len(kinds), 1)
    return [line for kind in sorted(kinds) for line in first([*kinds[kind]], most)]
