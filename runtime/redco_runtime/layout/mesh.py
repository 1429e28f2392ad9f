"""Axis sizes -> device mesh."""

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import AxisType, Mesh, NamedSharding

from ..base.messages import UserError


def axes_of(entry: Any) -> tuple[str, ...]:
    """Return the axes that one entry of a PartitionSpec names; UNCONSTRAINED names none."""
    return (entry,) if isinstance(entry, str) else entry if isinstance(entry, tuple) else ()


def free_axes() -> dict[str, int]:
    """Return the axes of the mesh in place, and their sizes, but those that a shard_map runs over."""
    mesh = jax.sharding.get_abstract_mesh()
    return {axis: size for axis, size in mesh.shape.items() if axis not in mesh.manual_axes}


def platform() -> str:
    """Return what a program is traced for, such as "gpu": the devices of the mesh in place; "" where it has none."""
    device = jax.sharding.get_abstract_mesh().abstract_device
    return device.platform if device else ""


def use_virtual_devices(count: int) -> None:
    """Make JAX take `count` devices of the CPU, and no others; before it computes anything.

    XLA runs several collectives of a device at once, each of which holds a thread until all devices
    have come. Of a thread for each device, which is what it has where cores are as few, one may be
    missing for ever; two for each are as fast.
    """
    os.environ.setdefault("PJRT_NPROC", str(max(os.cpu_count() or 1, 2 * count)))
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", count)


def on_parts(
    function: Callable[..., Any], axes: Collection[str], **specs: Any
) -> Callable[..., Any]:
    """Return `function` for each device to run on its parts over `axes`; as it is where there are none.

    specs: in_specs and out_specs, of these axes alone, as jax.shard_map has them.
    """
    if not axes:
        return function
    return jax.shard_map(function, axis_names={*axes}, check_vma=False, **specs)


def count_parts(batch: NamedSharding) -> int:
    """Return into how many parts the devices split the first dim of an array."""
    multiple = batch.num_devices
    return multiple // batch.shard_shape((multiple,))[0]


def split_rows(x: jax.Array, parts: int) -> jax.Array:
    """Return (B, ...) as (parts, B / parts, ...); each part has rows of every device: none moves."""
    return jnp.swapaxes(x.reshape(x.shape[0] // parts, parts, *x.shape[1:]), 0, 1)


def add_up(x: jax.Array, dims: int) -> jax.Array:
    """Return the sum over the first `dims` dims, each an axis of the mesh, in the dtype of `x`.

    The last one first: what fsdp splits of the sum is scattered before `data` reduces the parts.
    """
    for dim in reversed(range(dims)):
        x = jax.lax.reduce(x, jnp.zeros((), x.dtype), jax.lax.add, (dim,))
        x = jax.lax.optimization_barrier(x)  # or XLA makes them one sum, and one all-reduce
    return x


def make_mesh(axes: Mapping[str, int], devices: Sequence[jax.Device] | None = None) -> Mesh:
    """Return the mesh of `devices`, all by default; an axis of -1 takes what is left.

    Raises UserError where the sizes do not fit their number.
    """
    devices = jax.devices() if devices is None else devices
    count = len(devices)
    fixed = math.prod(size for size in axes.values() if size > 0)
    sizes = {name: count // fixed if size == -1 else size for name, size in axes.items()}
    if math.prod(sizes.values()) != count:
        wanted = " x ".join(f"{name} {size}" for name, size in axes.items() if size > 0)
        some = "a multiple of " if -1 in axes.values() else ""
        raise UserError(
            f"mesh: {wanted} needs {some}{fixed} devices, and {count} "
            f"{jax.default_backend()} device(s) are here; on a CPU, add --virtual-devices {fixed}; "
            "elsewhere, choose other sizes with --mesh, such as --mesh "
            + ",".join(f"{name}={count if name == 'data' else 1}" for name in axes)
        )
    auto = (AxisType.Auto,) * len(sizes)
    if (slices := len({getattr(device, "slice_index", 0) for device in devices})) > 1:
        return Mesh(_over_slices(sizes, slices, devices), tuple(sizes), axis_types=auto)
    return jax.make_mesh(tuple(sizes.values()), tuple(sizes), auto, devices=devices)


def _over_slices(sizes: Mapping[str, int], slices: int, devices: Sequence[Any]) -> np.ndarray:
    """Return the devices of several slices of a TPU, or hosts of GPUs, in the shape of `sizes`: its first axes go over the network between them.

    Each takes as many as divide it: micro-batches of `stage`, then gradients of `data`; others where these are small.
    """
    outer: list[int] = []
    for size in sizes.values():
        outer.append(math.gcd(size, slices // math.prod(outer)))
    if math.prod(outer) < slices:
        have = ", ".join(f"{name} {size}" for name, size in sizes.items())
        what = f"mesh: {slices} slices or hosts, and {have} do not divide into so many; "
        raise UserError(f"{what}choose sizes with --mesh, of which data is a multiple of {slices}")
    inner = [size // parts for size, parts in zip(sizes.values(), outer, strict=True)]
    return mesh_utils.create_hybrid_device_mesh(inner, outer, devices)


def memory_of(device: jax.Device) -> int:
    """Return the bytes that a device has for arrays; 0 where it does not say, such as a CPU."""
    return int((device.memory_stats() or {}).get("bytes_limit", 0))


def check_divides(settings: object, table: Mapping[str, Sequence[str]], pieces: int = 1) -> None:
    """Raise UserError for a setting that the devices of its axes cannot split.

    table: field of `settings`, a number -> the axes of the mesh in place that split it. pieces: parts of one of several devices.
    """
    for name, axes in table.items():
        value = getattr(settings, name)
        parts = math.prod(jax.sharding.get_mesh().shape[axis] for axis in axes)
        if value % (parts := parts * pieces if parts > 1 else 1):
            raise UserError(
                f"{name} {value} does not divide by {parts}, {'twice ' * (pieces - 1)}the devices of "
                f"{' x '.join(axes)}, which split it: make it {-(-value // parts) * parts}"
            )


def parse_axes(text: str, axes: Mapping[str, int]) -> dict[str, int]:
    """Parse `data=2,model=4`; an axis that is not named has size 1. Raises UserError."""
    sizes = dict.fromkeys(axes, 1)
    for part in text.split(","):
        name, _, size = part.partition("=")
        good = size.isdecimal() and int(size) > 0 or size == "-1"
        if name not in axes or not good:
            raise UserError(
                f"--mesh: {part!r} is not an axis and its size: "
                f"give some of {', '.join(axes)}, such as data=1,model=2"
            )
        sizes[name] = int(size)
    return sizes
