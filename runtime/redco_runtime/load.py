"""From the tensors of a checkpoint to parameters, each straight into its shards."""

import math
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from redco_runtime.checkpoint import Checkpoints
from redco_runtime.contracts import Config, Steps, Weights
from redco_runtime.errors import UserError, first, listed
from redco_runtime.state import PyTree, TrainState, flatten, rebuild
from redco_runtime.stored import Stored
from redco_runtime.weights import Shape, Tensor, own_names, wholes

Fetch = Callable[[str, tuple[slice, ...]], np.ndarray]  # (name, index) -> slice of a stored tensor
# What old checkpoints, converted from TensorFlow, call the parameters of a norm: transformers renames
# them when it loads, too.
LEGACY = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def load(
    source: str, steps: Steps, config: Config, weights: Weights | None
) -> tuple[PyTree, list[str]]:
    """Return (params, paths of those that the checkpoint `source` has not and `init` makes).

    weights: the project's weights.py; without it, tensors are named as the project's own export
    does. Each process reads what its devices hold, shard by shard. Beside what is on devices, its
    memory has room for the largest shard, and the part of one stored tensor that goes into a shard.
    Raises UserError that names what does not fit.
    """
    stored, like = Stored(source), flatten(steps.state.params)
    shapes = {path: leaf.shape for path, leaf in flatten(steps.shapes).items()}
    if weights:
        stored.check_config(weights.hf_config(config.model))
    table = weights.tensors(config.model) if weights else own_names(shapes, steps.apart)
    table = {p: t for p, t in table.items() if not t.optional or t.name in stored.shapes}
    names = match(stored, table, shapes, weights)
    random = [path for path in like if path not in table]
    params = initial(steps, random, config.train.seed)
    buffer = make_buffer(max(map(shard_bytes, like.values())))

    def fetch(name: str, index: tuple[slice, ...]) -> np.ndarray:
        return stored.read(names[name], index)

    hidden = None if jax.process_index() == 0 else True  # None: where stderr is no terminal
    for path, tensor in tqdm(table.items(), "reading", unit="parameters", disable=hidden):
        params[path] = read(tensor, shapes[path], like[path], fetch, buffer)
    return rebuild(steps.state.params, params), random


def adopt(directory: Path, steps: Steps, config: Config) -> tuple[TrainState, list[str], list[str]]:
    """Return the state of a new run, with what the newest checkpoint of another one has of its model.

    Returns (state, paths of parameters that `init` makes, names that the model has not). Raises
    UserError, as `restore_common`.
    """
    leaves, unused = Checkpoints(directory, shapes=steps.shapes).restore_common(steps.state.model)
    random = [path for path in flatten(steps.state.params) if f"params/{path}" not in leaves]
    params = {path.removeprefix("params/"): leaf for path, leaf in leaves.items()}
    params |= initial(steps, random, config.train.seed)
    state = steps.start(rebuild(steps.state.params, params))
    variables = {path: leaf for path, leaf in leaves.items() if path.startswith("variables/")}
    state = rebuild(state, flatten(state) | variables)
    return state, random, [path.removeprefix("params/") for path in unused]


def match(
    stored: Stored,
    table: Mapping[str, Tensor],
    shapes: Mapping[str, Shape],
    weights: Weights | None,
) -> dict[str, str]:
    """Return the name of each tensor in the table -> its name in the checkpoint.

    Raises UserError, as `load`.
    """
    unknown = [path for path in table if path not in shapes]
    faults = [f"{path}: in tensors() of weights.py, and no parameter" for path in unknown]
    expected = wholes({p: t for p, t in table.items() if p in shapes}, shapes)
    prefix, ignored = (weights.PREFIX, weights.IGNORED) if weights else ("", ())
    names: dict[str, str] = {}
    for there in stored.shapes:
        names_here = spellings(there, prefix)
        here = next((name for name in names_here if name in expected and name not in names), None)
        if here is not None:
            names[here] = there
        elif not any(fnmatchcase(name, pattern) for name in names_here for pattern in ignored):
            faults.append(f"{there}: there, and no parameter is made of it")
    for name, whole in expected.items():
        of = ", ".join(path for path, _ in whole.pieces)
        if name not in names:
            faults.append(f"{name}: missing, for {of}")
        elif (shape := stored.shapes[names[name]]) != whole.shape:
            faults.append(f"{names[name]}: {shape} there, {whole.shape} here, for {of}")
    if faults:
        title = f"--init: the tensors of {stored.folder} do not fit the model:"
        todo = "Choose a checkpoint of this model; weights.py says what belongs where."
        raise UserError(listed(title, first(faults), todo))
    return names


def spellings(name: str, prefix: str) -> list[str]:
    """Return what a tensor of a checkpoint may be called here: with or without the prefix."""
    for old, new in LEGACY.items():
        name = name.replace(old, new)
    return [name, prefix + name, name.removeprefix(prefix)]


def initial(steps: Steps, paths: Sequence[str], seed: int) -> dict[str, jax.Array]:
    """Return path -> what `steps.init` gives that parameter; the others are not computed."""

    def make(key: jax.Array) -> dict[str, jax.Array]:
        params = flatten(steps.init(key).params)
        return {path: params[path] for path in paths}

    like = flatten(steps.state.params)
    places = {path: like[path].sharding for path in paths}
    return jax.jit(make, out_shardings=places)(jax.random.key(seed)) if paths else {}


def shard_bytes(leaf: jax.ShapeDtypeStruct) -> int:
    """Return how much one device holds of a parameter."""
    return math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize


def make_buffer(size: int) -> np.ndarray:
    """Return memory of `size` bytes that any device copies from.

    A CPU's would keep as its own what begins at a multiple of 64 bytes: device_put does that to
    NumPy arrays even with may_alias=False (jax 0.10).
    """
    memory = np.empty(size + 64, np.uint8)
    start = (4 - memory.ctypes.data) % 64
    return memory[start : start + size]


def read(
    tensor: Tensor, shape: Shape, like: jax.ShapeDtypeStruct, fetch: Fetch, buffer: np.ndarray
) -> jax.Array:
    """Return a parameter of `shape`, where and as `like` says; zeros fill up what is larger there.

    buffer: of make_buffer, for one shard. It serves all, since JAX lets go of memory late.
    """
    devices_of: dict[tuple[tuple[int, int], ...], list[Any]] = {}
    for device, index in like.sharding.addressable_devices_indices_map(like.shape).items():
        box = tuple(at.indices(size)[:2] for at, size in zip(index, like.shape, strict=True))
        devices_of.setdefault(box, []).append(device)
    shards: list[jax.Array] = []
    for box, devices in devices_of.items():
        sizes = [stop - start for start, stop in box]
        shard = buffer[: math.prod(sizes) * like.dtype.itemsize].view(like.dtype).reshape(sizes)
        fill(shard, tensor, shape, box, fetch)
        shards += [jax.device_put(shard, device) for device in devices]
        jax.block_until_ready(shards)
    return jax.make_array_from_single_device_arrays(like.shape, like.sharding, shards)


def fill(
    shard: np.ndarray, tensor: Tensor, shape: Shape, box: Sequence[tuple[int, int]], fetch: Fetch
) -> None:
    """Write into `shard` the part of a parameter that lies in `box`: (start, stop) of each dim."""
    shard.fill(0)
    ranges = [range(start, min(stop, size)) for (start, stop), size in zip(box, shape, strict=True)]
    if all(ranges):
        stack, rest = ranges[: tensor.depth], ranges[tensor.depth :]
        inner = tuple(slice(len(indices)) for indices in rest)
        for index in product(*stack):
            piece = fetch(tensor.name.format(*index), tensor.index(rest))
            outer = tuple(i - indices.start for i, indices in zip(index, stack, strict=True))
            shard[outer + inner] = piece.transpose(tensor.order or range(piece.ndim))
