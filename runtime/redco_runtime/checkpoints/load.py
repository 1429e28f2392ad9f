"""From the tensors of a checkpoint to parameters, each straight into its shards."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from ..base.contracts import Config, Steps, Weights
from ..base.messages import MOST_LINES, UserError, feature, first, listed
from ..base.hf_files import Stored, find, open_checkpoint
from ..base.files import check_paths, path_of, work_folder
from ..base.progress import ProgressBar
from ..base.state import TrainState, flatten
from ..base.tensors import Shape, Tensor, stored_there, wholes
from ..layout.specs import shard_bytes
from .checkpoint import Checkpoints
from .checksums import CHECKSUMS
from .tensors import move, to_read

Shapes = Mapping[str, jax.ShapeDtypeStruct]  # by path
Fetch = Callable[[str, tuple[slice, ...]], np.ndarray]  # (name, index) -> slice of a stored tensor
# Ends of the paths of what a matrix is stored as, where it has an adapter or is in few bits.
PARTS = ("lora_a", "lora_b", "lora_m", "codes", "scales")
# What old checkpoints, converted from TensorFlow, call the parameters of a norm: transformers renames
# them when it loads, too.
LEGACY = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def load(
    source: str, steps: Steps, config: Config, weights: Weights
) -> tuple[TrainState, list[str]]:
    """Return the state of a new run, as `start_from`, of the checkpoint `source` of Hugging Face.

    source: a folder, or an id of the hub.
    weights: the project's weights.py.
    """
    folder = find(source)
    stored = open_checkpoint(folder, weights.hf_config(config.model))
    shapes = {path: leaf.shape for path, leaf in steps.shapes.items()}
    whole = weights.tensors(config.model)
    heads = steps.classes.read_heads(stored, whole, config) if steps.classes else None
    table, other = stored_there(whole, stored.shapes, shapes, heads.there if heads else ())
    ignored = (*weights.IGNORED, *other)
    state, random = start_from(stored, table, steps, config, weights.PREFIX, ignored, heads)
    # Variables that such a checkpoint has not follow from the config.
    return state, [path for path in random if path in steps.shapes]


def start_from(
    stored: Stored,
    table: Mapping[str, Tensor],
    steps: Steps,
    config: Config,
    prefix: str,
    ignored: Sequence[str],
    heads: Any = None,
) -> tuple[TrainState, list[str]]:
    """Return (state of a new run, paths of what `table` has not and `init` makes).

    table: path of a parameter or a variable -> where it is.
    prefix, ignored: PREFIX and IGNORED of weights.py.
    heads: what goes by the names of classes, beside `table`: the Heads of data.classes.
    Each process reads its share of what its devices hold, shard by shard. Beside what is on devices, its memory
    has room for the largest shard, and the part of one stored tensor that goes into a shard.
    Raises UserError that names what does not fit.
    """
    like = steps.state.model.arrays
    shapes = {path: leaf.shape for path, leaf in (like | dict(steps.shapes)).items()}
    names = match(stored, table, shapes, prefix, ignored)
    random = [path for path in like if path not in table]
    arrays = initial(steps, random, config.train.seed)
    places = {path: to_read(leaf, (1,) * len(leaf.shape)) for path, leaf in like.items()}
    buffer = make_buffer(max(map(shard_bytes, places.values())))

    def fetch(name: str, index: tuple[slice, ...]) -> np.ndarray:
        return stored.read(names[name], index)

    count = sum(math.prod(shapes[path]) for path in table)
    with ProgressBar("reading weights", count, "parameters", shown=jax.process_index() == 0) as bar:
        for path, tensor in table.items():
            array = read(tensor, shapes[path], places[path], fetch, buffer)
            arrays[path] = move(array, like[path].sharding)
            bar.update(math.prod(shapes[path]))
    named = heads.fill(arrays, config, stored.path) if heads else []
    random = [path for path in random if path not in named]
    return steps.start(steps.state.model.with_arrays(arrays)), random


def checkpoints_of(init: str | None) -> Path | None:
    """Return the folder of checkpoints that --init names, a run or that folder; None where it is neither."""
    folders = [path_of(init) / "checkpoints", path_of(init)] if init else []
    folder = next((folder for folder in folders if any(folder.glob(f"*/{CHECKSUMS}"))), None)
    check_paths("--init", str(folder or ""), work_folder)
    return folder


def adopt(
    directory: Path, steps: Steps, config: Config, by_name: Collection[str] = ()
) -> tuple[TrainState, list[str], list[str]]:
    """Return the state of a new run, with what the newest checkpoint of another one has of its model.

    Returns (state, paths of parameters that `init` makes, names that the model has not). An adapter that
    the model has not is added to its matrices, in a project that has that feature. Raises UserError, as `restore_common`.
    by_name: paths of what has a column for each class, which is taken by the names of these.
    """
    model, rows = steps.state.model, steps.classes.moved_rows(config, directory) if by_name else []
    by_name = {*by_name} if rows else set()
    checkpoints = Checkpoints(directory, shapes=steps.shapes)
    replicated = NamedSharding(jax.sharding.get_mesh(), PartitionSpec())
    adapters = list[Any]()  # the module that puts parts of matrices together, where there are some

    def further(there: Shapes, like: Shapes) -> dict[str, jax.ShapeDtypeStruct]:
        if lora := getattr(config, "lora", None):
            lora.check_run(directory, there, like)
        whole = {p: there[p].update(sharding=replicated) for p in by_name & there.keys()}
        if parts := [path for path in there if is_part(path, like)]:
            named = {path.split("/")[-2] for path in parts if path.endswith("lora_a")}
            lacks = f"an adapter on {', '.join(sorted(named))}, where this model has none"
            what = f"--init: {directory} has {lacks if named else 'matrices in few bits'}"
            adapters.append(feature("adapters", "checkpoints.lora_into_matrices", what))
            whole |= adapters[0].parts_of_matrices(there, like)
        return whole

    stored, unused = checkpoints.restore_common(model.arrays, further)
    there = {path: stored[path] for path in by_name & stored.keys()}
    rest = {path: array for path, array in stored.items() if path not in there}
    arrays = adapters[0].merge_parts(rest, model.arrays, directory) if adapters else {**rest}
    absent = [path for path in model.arrays if path not in arrays]
    if lost := [path for path in flatten(model.frozen) if path not in arrays]:
        title = f"--init: {directory} does not have what is frozen in this model, which stores it otherwise:"
        todo = (
            f"Write it as a checkpoint, where the model is as it was then: python -m ITS_PACKAGE.export --workdir {directory.parent} "
            "--out exported (and --merge, where it trained an adapter); then --init exported."
        )
        raise UserError(listed(title, first(lost), todo))
    arrays |= initial(steps, absent, config.train.seed)
    named = steps.classes.Heads(there, rows).fill(arrays, config, directory) if there else []
    state = steps.start(model.with_arrays(arrays))
    return state, [path for path in absent if path in steps.shapes and path not in named], unused


def is_part(path: str, like: Collection[str]) -> bool:
    """Return whether what a run has at a path is a part of a matrix that is whole in `like`, or has no adapter there."""
    layer, _, end = path.rpartition("/")
    if path in like or end not in PARTS or f"{layer}/kernel" not in like:
        return False
    return end != "lora_m" or f"{layer}/lora_a" not in like  # an adapter without it is another one


def match(
    stored: Stored,
    table: Mapping[str, Tensor],
    shapes: Mapping[str, Shape],
    prefix: str,
    ignored: Sequence[str],
) -> dict[str, str]:
    """Return the name of each tensor in the table -> its name in the checkpoint.

    Raises UserError, as `load`.
    """
    unknown = [
        f"{path}: in tensors() of weights.py, and no parameter"
        for path in table
        if path not in shapes
    ]
    surplus, missing, other = list[str](), list[str](), list[str]()
    expected = wholes({p: t for p, t in table.items() if p in shapes}, shapes)
    names: dict[str, str] = {}
    for there in stored.shapes:
        names_here = spellings(there, prefix)
        here = next((name for name in names_here if name in expected and name not in names), None)
        if here is not None:
            names[here] = there
        elif not any(fnmatchcase(name, pattern) for name in names_here for pattern in ignored):
            surplus.append(f"{there}: there, and no parameter is made of it")
    for name, whole in expected.items():
        of = ", ".join(path for path, _ in whole.pieces)
        if name not in names:
            missing.append(f"{name}: missing, for {of}")
        elif (shape := stored.shapes[names[name]]) != whole.shape:
            other.append(f"{names[name]}: {shape} there, {whole.shape} here, for {of}")
    if kinds := [kind for kind in (unknown, surplus, missing, other) if kind]:
        title = f"--init: the tensors of {stored.path} do not fit the model:"
        todo = "Choose a checkpoint of this model, or say in weights.py what belongs where."
        lines = [line for kind in kinds for line in first(kind, MOST_LINES // len(kinds))]
        raise UserError(listed(title, lines, todo))
    return names


def spellings(name: str, prefix: str) -> list[str]:
    """Return what a tensor of a checkpoint may be called here: with or without the prefix."""
    modern = name
    for old, new in LEGACY.items():
        modern = modern.replace(old, new)
    return [form for x in (name, modern) for form in (x, prefix + x, x.removeprefix(prefix))]


def initial(steps: Steps, paths: Sequence[str], seed: int) -> dict[str, jax.Array]:
    """Return path -> what `steps.init` gives that parameter or variable; no others are computed."""

    def make(key: jax.Array) -> dict[str, jax.Array]:
        arrays = steps.init(key).model.arrays
        return {path: arrays[path] for path in paths}

    like = steps.state.model.arrays
    places = {path: like[path].sharding for path in paths}
    return jax.jit(make, out_shardings=places)(jax.random.key(seed)) if paths else {}


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
            piece = fetch(tensor.name_at(index), tensor.index(rest))
            outer = tuple(i - indices.start for i, indices in zip(index, stack, strict=True))
            shard[outer + inner] = piece.transpose(tensor.order or range(piece.ndim))
