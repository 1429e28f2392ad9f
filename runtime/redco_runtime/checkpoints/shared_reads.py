"""How several hosts read tensors of files: each part by one of them, and then to where the tensors are to lie.

Else a tensor that is whole on each host is read by all. Orbax reads parts as they were written, so that one
that was split otherwise is read by all hosts too: N times the state.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from math import ceil, gcd, prod
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

SMALL = 2**20  # bytes: what is less is read by all sooner than it is moved


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
