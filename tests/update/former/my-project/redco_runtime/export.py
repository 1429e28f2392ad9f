"""Parameters as safetensors, which load without this project and without JAX."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from redco_runtime.errors import UserError, writing
from redco_runtime.state import flatten
from redco_runtime.stored import INDEX, ONE
from redco_runtime.weights import Tensor, own_names, wholes

FILE_BYTES = 5_000_000_000  # of a file with more than one tensor, at most
DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16", "float64": "F64", "int32": "I32"}
TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")


def export(
    params: Any,
    directory: Path,
    config: Mapping[str, Any],
    *,
    table: Mapping[str, Tensor] | None = None,
    shapes: Any = None,
    tokenizer: Any = None,
) -> None:
    """Writes `directory`: tensors, config.json, what `tokenizer` saves. All of it, or nothing.

    params: pytree of arrays, sharded or not; dtypes are kept.  shapes: of those without padding.
    table: path -> Tensor; without it a tensor is named by its path, joined by ".". All processes
    call this and process 0 writes: a host brings one layer of one parameter together, then one
    tensor of it. Raises UserError.
    """
    tensors = Tensors(params, params if shapes is None else shapes, table)
    with new_folder(directory) as folder:
        files = split(tensors.heads)
        for file, names in files.items():  # all processes take part in gathering
            write(folder / file if folder else Path(os.devnull), names, tensors)
        if folder:
            describe(folder, config, files, tensors, tokenizer)


class Tensors:
    """The tensors that parameters are stored as.

    heads: name -> shape and dtype. What is in one is brought together when it is asked for.
    """

    def __init__(self, params: Any, shapes: Any, table: Mapping[str, Tensor] | None) -> None:
        self._leaves = flatten(params)
        self._shapes = {path: np.shape(leaf) for path, leaf in flatten(shapes).items()}
        self._table = own_names(self._shapes) if table is None else table
        if unlike := ", ".join(sorted(self._shapes.keys() ^ self._table.keys())):
            raise UserError(
                f"tensors() in weights.py does not fit the model: {unlike}: add there what it lacks, "
                "and take out what is no parameter"
            )
        self._wholes = wholes(self._table, self._shapes)
        self.heads = {
            name: jax.ShapeDtypeStruct(whole.shape, self._leaves[whole.pieces[0][0]].dtype)
            for name, whole in self._wholes.items()
        }
        self._last: dict[Any, np.ndarray] = {}  # experts take one after the other of a layer

    def __getitem__(self, name: str) -> np.ndarray:
        """A tensor, on the host; all processes ask for the same one."""
        whole = np.empty(self.heads[name].shape, self.heads[name].dtype)
        for path, index in self._wholes[name].pieces:
            tensor, shape = self._table[path], self._shapes[path][len(index) :]
            piece = self._layer(path, index[:1])[index[1:]][tuple(map(slice, shape))]
            whole[tensor.index([*map(range, shape)])] = piece.transpose(tensor.axes(piece.ndim))
        return whole

    def _layer(self, path: str, index: tuple[int, ...]) -> np.ndarray:
        if (path, index) not in self._last:
            self._last.clear()
            self._last[path, index] = gather(self._leaves[path], index)
        return self._last[path, index]


@contextmanager
def new_folder(directory: Path) -> Iterator[Path | None]:
    """A folder that becomes `directory` when all went well, for process 0; None for the others."""
    directory = Path(directory).absolute()
    if multihost_utils.broadcast_one_to_all(directory.exists()):
        raise UserError(f"{directory} is there already: export to a new folder")
    if jax.process_index() == 0:
        with writing(directory, option="--out"):
            directory.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".export.") as beside:
                folder = Path(beside) / "open"  # `beside` itself is closed to other users
                folder.mkdir()
                yield folder
                folder.rename(directory)
    else:
        yield None
    multihost_utils.sync_global_devices(f"exported {directory.name}")


def gather(value: Any, index: tuple[int, ...]) -> np.ndarray:
    """`value` at these indices of its first dims, the same in all processes."""
    if index:
        value = _at(value, index)
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        value = multihost_utils.process_allgather(value, tiled=True)
    return np.asarray(value)


@jax.jit
def _at(value: jax.Array, index: tuple[jax.Array, ...]) -> jax.Array:
    return value[index]


def split(heads: Mapping[str, jax.ShapeDtypeStruct]) -> dict[str, list[str]]:
    """Name of a file -> those of its tensors. Those of longer elements come first: all align."""
    groups, room = [[]], FILE_BYTES
    for name in sorted(heads, key=lambda name: -heads[name].dtype.itemsize):
        size = size_of(heads[name])
        if size > room and groups[-1]:
            groups, room = [*groups, []], FILE_BYTES
        groups[-1].append(name)
        room -= size
    numbered = (f"model-{i:05}-of-{len(groups):05}.safetensors" for i in range(1, len(groups) + 1))
    return dict(zip(numbered, groups, strict=True)) if len(groups) > 1 else {ONE: groups[0]}


def size_of(head: jax.ShapeDtypeStruct) -> int:
    """Bytes of a tensor."""
    return head.size * head.dtype.itemsize


def write(path: Path, names: Sequence[str], tensors: Tensors) -> None:
    """A safetensors file (github.com/huggingface/safetensors), one tensor at a time."""
    told, end = {"__metadata__": {"format": "pt"}}, 0
    for name in names:
        head, start = tensors.heads[name], end
        end += size_of(head)
        entry = {"dtype": DTYPES[head.dtype.name], "shape": head.shape}
        told[name] = entry | {"data_offsets": (start, end)}
    text = json.dumps(told).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            file.write(tensors[name].reshape(-1).view(np.uint8))


def describe(
    folder: Path,
    config: Mapping[str, Any],
    files: Mapping[str, Sequence[str]],
    tensors: Tensors,
    tokenizer: Any,
) -> None:
    """What goes with the tensors. The ids of special tokens are the tokenizer's."""
    documents = {"config.json": dict(config)}
    if len(files) > 1:
        where = {name: file for file, names in files.items() for name in names}
        total = {"total_size": sum(map(size_of, tensors.heads.values()))}
        documents[INDEX] = {"metadata": total, "weight_map": where}
    if tokenizer:
        tokenizer.save_pretrained(folder)
        ids = {name: getattr(tokenizer, name) for name in TOKENS}
        documents["config.json"] |= ids
        ids["decoder_start_token_id"] = config.get("decoder_start_token_id")
        told = {name: value for name, value in ids.items() if value is not None}
        documents["generation_config.json"] = told
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=2) + "\n")
