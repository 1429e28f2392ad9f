"""The mesh that is asked for: how many devices along each axis."""

import re
from collections.abc import Mapping
from typing import Any

from redco_new.errors import RedcoError

AXES = ("stage", "data", "fsdp", "expert", "context", "model")
RARE = ("stage", "context")  # axes that a mesh has only where they are asked for
REST = -1  # as the size of `data`: the devices that the other axes leave
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,9}")  # nine digits: more devices than there are
MESH_EXAMPLE = "give for example --mesh data=2,fsdp=1,model=4"


def parse_mesh(
    shards: str | None, mesh: str | None, default: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return the mesh that `--shards 4` and `--mesh data=2,fsdp=1,model=4` ask for, each as typed.

    `--shards` is the size of `model`. An axis that neither names has its size in `default`, else 1,
    but `data` takes the devices that are left. Raises RedcoError if a size is not a size or the two
    flags contradict.
    """
    sizes = {} if mesh is None else _parse_axes(mesh)
    if shards is not None:
        if not WHOLE_NUMBER.fullmatch(shards) or int(shards) < 1:
            what = f"{shards!r} is not a number of shards: 1 or more"
            raise RedcoError("--shards", what, "give for example --shards 4")
        if sizes.get("model", int(shards)) != int(shards):
            what = f"{shards} contradicts model={sizes['model']} of --mesh"
            raise RedcoError("--shards", what, "make them equal, or give only one of them")
        sizes["model"] = int(shards)
    return check_mesh("--mesh", {**(default or {}), **sizes})


def _parse_axes(text: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for part in text.split(","):
        axis, equals, size = part.partition("=")
        if not equals or not WHOLE_NUMBER.fullmatch(size):
            raise RedcoError("--mesh", f"{part!r} is not AXIS=SIZE", MESH_EXAMPLE)
        if axis in sizes:
            raise RedcoError("--mesh", f"the axis {axis!r} is given twice", "give it once")
        sizes[axis] = int(size)
    return sizes


def check_mesh(where: str, sizes: Any) -> dict[str, int]:
    """Return `sizes` with all of AXES but RARE of 1, in their order. Raises RedcoError for what is no axis or no size."""
    if not isinstance(sizes, dict):
        raise RedcoError(where, f"{sizes!r} is not a table", "write [mesh] with an axis a line")
    for axis, size in sizes.items():
        if axis not in AXES:
            raise RedcoError(where, f"unknown axis {axis!r}", f"the axes are {', '.join(AXES)}")
        rest = axis == "data" and size == REST
        if type(size) is not int or (size < 1 and not rest):
            todo = "give 1 or more (data may be -1: the devices that are left)"
            raise RedcoError(where, f"{axis}={size!r} is not a size", todo)
    _check_stages(where, sizes)
    whole = {a: sizes.get(a, REST if a == "data" else 1) for a in AXES}
    return {a: size for a, size in whole.items() if a not in RARE or size > 1}


# Axis -> why `stage` does not go with it, and what to do. What fsdp takes was compiled: with weights gathered once a
# repeat, two sets of them at a time, as MaxText does, for Llama 70B on 64 H100, 64 rows of 4,096 tokens, 10 repeats.
BESIDE_STAGES = {
    "fsdp": (
        "gathered weights of two repeats and the sums of their gradients take more memory than they save (Llama 70B on "
        "stage=8,fsdp=8: 44.6 GiB of each H100; on stage=8,model=8 with --sequence-parallel: 23.0)",
        "give model in its place; --zero 1 splits what the optimizer keeps over data",
    ),
    "context": (
        "a stage has all positions of a row, or those that model splits",
        "leave one of the two out, or give model in place of context, and --sequence-parallel",
    ),
}


def _check_stages(where: str, sizes: Mapping[str, int]) -> None:
    """Raise RedcoError for an axis that does not go with `stage`."""
    if sizes.get("stage", 1) == 1:
        return
    for axis, (why, todo) in BESIDE_STAGES.items():
        if sizes.get(axis, 1) > 1:
            goes = f"stage={sizes['stage']} goes with data, expert and model, and not with {axis}={sizes[axis]}"
            raise RedcoError(where, f"{goes}: {why}", todo)
