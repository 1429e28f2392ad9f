"""A run that trained an adapter, as the start of a model that has whole matrices.

A matrix (..., in, out) may be stored in blocks, as of nn/matrices.py. An adapter of it is two,
(..., in, rank) and (..., rank, out); one of DoRA (Liu et al. 2024) has (..., out) too: by how much the
length of each column of the matrix is to be another, where PEFT has that length itself.
"""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from ..base.messages import print_once
from ..layout.mesh import axes_of
from ..nn.adapters.settings import CODES, KERNEL, SCALES, A, Arrays, B, M, add_adapter, scale_of
from ..nn.matrices import restore
from .load import is_part
from .lora.runs import adapter_of

Heads = Mapping[str, jax.ShapeDtypeStruct]  # by path


def parts_of_matrices(there: Heads, like: Heads) -> dict[str, jax.ShapeDtypeStruct]:
    """Return what a run has of matrices that a model has whole, split as these are, where that divides.

    there: the parameters of the run, without padding. like: those of the model, with shardings.
    """
    parts: dict[str, jax.ShapeDtypeStruct] = {}
    for path, head in there.items():
        if not is_part(path, like):
            continue
        layer, _, end = path.rpartition("/")
        whole = like[layer + KERNEL]
        *stack, rows, columns = whole.sharding.spec
        dims = {A: (rows, None), B: (None, columns), M: (columns,)}
        own = (*stack, *dims.get(f"/{end}", (rows, None, columns)))
        mesh, entries = whole.sharding.mesh, zip(head.shape, own, strict=True)
        fits = (
            entry if size % math.prod(mesh.shape[axis] for axis in axes_of(entry)) == 0 else None
            for size, entry in entries
        )
        place = NamedSharding(mesh, P(*fits))
        parts[path] = jax.ShapeDtypeStruct(head.shape, head.dtype, sharding=place)
    return parts


def merge_parts(arrays: Arrays, like: Heads, directory: Path) -> dict[str, jax.Array]:
    """Return the arrays of a model: what `arrays` has of it, parts merged; say where an adapter is in them.

    arrays: of a run, by path, with its parts of matrices. directory: its checkpoints.
    Raises UserError where nothing beside these says how much its adapter adds.
    """
    merged = {path: array for path, array in arrays.items() if path in like}
    layers = dict.fromkeys(path.rpartition("/")[0] for path in arrays.keys() - merged.keys())
    adapted = [layer for layer in layers if layer + A in arrays and layer + A not in like]
    settings = adapter_of(directory) if adapted else {}
    for layer in sorted(layers):
        path = layer + KERNEL
        ends = (CODES, SCALES) if layer + CODES in arrays else (KERNEL,)
        stored = [arrays[layer + end] for end in ends]
        of_adapter = [layer + end for end in (A, B, M) if layer in adapted]
        added = [arrays[one] for one in of_adapter if one in arrays]
        make = partial(_whole, shape=like[path].shape, dtype=like[path].dtype, settings=settings)
        merged[path] = jax.jit(make, out_shardings=like[path].sharding)(stored, added)
    if adapted:
        print_once(f"the adapter of {directory} is added to the matrices that it is of")
    return merged


def _whole(
    stored: list[jax.Array],
    added: list[jax.Array],
    shape: tuple[int, ...],
    dtype: jax.typing.DTypeLike,
    settings: Mapping[str, Any],
) -> jax.Array:
    """Return a matrix, with what its adapter adds, in a shape that zeros fill up."""
    first, *scales = stored
    whole = restore(first, scales[0], scales[0].dtype) if scales else first
    whole = _fill(whole.astype(jnp.float32), shape)
    if added:
        *stack, rows, columns = shape
        rank, by_root = added[0].shape[-1], settings.get("use_rslora", False)
        sizes = (*stack, rows, rank), (*stack, rank, columns), (*stack, columns)
        parts = [_fill(x, size) for x, size in zip(added, sizes, strict=False)]
        whole = add_adapter(whole, scale_of(settings["lora_alpha"], rank, by_root), parts)
    return whole.astype(dtype)


def _fill(x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jnp.pad(x, [(0, more - size) for size, more in zip(x.shape, shape, strict=True)])
