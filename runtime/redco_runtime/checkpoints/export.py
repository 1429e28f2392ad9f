"""Parameters as safetensors, which load without this project and without JAX."""

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from ..base.messages import UserError, writing
from ..base.hf_files import INDEX, ONE
from ..base.files import is_bucket, path_of
from ..base.state import PyTree, flatten
from ..base.tensors import Tensor, wholes
from ..base.together import of_first, wait_for_all

# Bytes of a file with more than one tensor, at most: as save_pretrained of transformers has it.
FILE_BYTES = 5_000_000_000
KINDS = {"float": "F", "int": "I", "uint": "U"}
DTYPES = {f"{kind}{n}": f"{KINDS[kind]}{n}" for kind in KINDS for n in (8, 16, 32, 64)}
DTYPES |= {"bool": "BOOL", "bfloat16": "BF16"}
TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")


def export(
    params: PyTree,
    directory: Path,
    config: Mapping[str, Any],
    *,
    table: Mapping[str, Tensor],
    shapes: PyTree = None,
    variables: PyTree = None,
    tokenizer: Any = None,  # of transformers, which is not typed
    write: "Write | None" = None,
    beside: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    generation: Mapping[str, Any] | None = None,
    ends: Iterable[int] = (),
) -> None:
    """Write `directory`: tensors, config.json, what `tokenizer` saves. All of it, or nothing.

    All processes call this and process 0 writes: a host brings one layer, then one tensor together. Raises UserError.
    params, variables: arrays, sharded or not, all of which are written. shapes: of params, without padding.
    table: path of each of them -> the tensor that it becomes.
    write: the format, safetensors by default, whose dtypes stay as they are.
    beside: name of a further file -> what it holds, as JSON.
    generation: the generation_config.json that the weights came with, which stays as it is; None: writes no texts.
    ends: ids that end a text beside those of `generation`, such as those of answers by a template of chats.
    """
    sizes = flatten(params if shapes is None else shapes) | flatten(variables)
    tensors = Tensors(flatten(params) | flatten(variables), sizes, table)
    if generation is not None and (ends := [*ends]):
        own = generation.get("eos_token_id", [])
        every = dict.fromkeys([*ends, *(own if isinstance(own, list) else [own])])
        generation = {**generation, "eos_token_id": [*every]}
    with new_folder(directory) as folder:
        (write or write_safetensors)(folder, config, tensors, tokenizer, generation)
        for name, document in beside.items():
            if folder:
                (folder / name).write_text(json.dumps(document, indent=2) + "\n")


class Tensors:
    """The tensors that arrays are stored as.

    heads: name -> shape and dtype. What is in one is brought together when it is asked for.
    """

    def __init__(
        self,
        leaves: Mapping[str, jax.Array],
        shapes: Mapping[str, Any],
        table: Mapping[str, Tensor],
    ) -> None:
        self._leaves = leaves
        self._shapes = {path: np.shape(leaf) for path, leaf in shapes.items()}
        self._table = table
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
        """Return a tensor, on the host; all processes ask for the same one."""
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


# (folder, None in all processes but one, config.json, tensors, tokenizer, generation_config.json or None): a format.
Write = Callable[[Path | None, Mapping[str, Any], Tensors, Any, Mapping[str, Any] | None], None]


def safetensors_alone(why: str) -> Callable[[str], None]:
    """Return a parser of --format for a model that has no other one. why: for people."""

    def parse(text: str) -> None:
        if text != "safetensors":
            raise argparse.ArgumentTypeError(f"{text}: {why}; leave it out for safetensors")

    return parse


def write_safetensors(
    folder: Path | None,
    config: Mapping[str, Any],
    tensors: Tensors,
    tokenizer: Any,
    generation: Mapping[str, Any] | None,
) -> None:
    """Write a folder that from_pretrained of transformers reads; all processes take part in gathering."""
    files = split(tensors.heads)
    for file, names in files.items():
        write(folder / file if folder else Path(os.devnull), names, tensors)
    if folder:
        write_documents(folder, config, files, tensors, tokenizer, generation)


@contextmanager
def new_folder(directory: Path) -> Iterator[Path | None]:
    """Yield a folder that becomes `directory` when all went well, for process 0; None for the others."""
    directory = path_of(directory).absolute()
    if of_first("the folder of an export", directory.exists):
        raise UserError(f"{directory} is there already: export to a new folder")
    if jax.process_index() == 0:
        with writing(directory, option="--out"):
            parent = None if is_bucket(directory) else directory.parent
            if parent:
                parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=parent, prefix=".export.") as beside:
                folder = Path(beside) / "open"  # `beside` itself is closed to other users
                folder.mkdir()
                yield folder
                directory.fill(folder) if is_bucket(directory) else folder.rename(directory)
    else:
        yield None
    wait_for_all("an export")


def gather(value: jax.Array, index: tuple[int, ...]) -> np.ndarray:
    """Return `value` at these indices of its first dims, the same in all processes."""
    if index:
        value = _at(value, index)
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        value = multihost_utils.process_allgather(value, tiled=True)
    return np.asarray(value)


@jax.jit
def _at(value: jax.Array, index: tuple[jax.Array, ...]) -> jax.Array:
    return value[index]


def split(heads: Mapping[str, jax.ShapeDtypeStruct]) -> dict[str, list[str]]:
    """Return file -> its tensors. Those of longer elements come first, so that all are aligned."""
    groups, room = list[list[str]]([[]]), FILE_BYTES
    for name in sorted(heads, key=lambda name: -heads[name].dtype.itemsize):
        size = size_of(heads[name])
        if size > room and groups[-1]:
            groups, room = [*groups, []], FILE_BYTES
        groups[-1].append(name)
        room -= size
    numbered = (f"model-{i:05}-of-{len(groups):05}.safetensors" for i in range(1, len(groups) + 1))
    return dict(zip(numbered, groups, strict=True)) if len(groups) > 1 else {ONE: groups[0]}


def size_of(head: jax.ShapeDtypeStruct) -> int:
    """Return the bytes of a tensor."""
    return head.size * head.dtype.itemsize


def write(
    path: Path,
    names: Sequence[str],
    tensors: Tensors,
    notes: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write a safetensors file (github.com/huggingface/safetensors), one tensor at a time.

    notes: what else its header says.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **notes}}
    end = 0
    for name in names:
        head, start = tensors.heads[name], end
        end += size_of(head)
        entry = {"dtype": DTYPES[head.dtype.name], "shape": head.shape}
        header[name] = entry | {"data_offsets": (start, end)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            file.write(tensors[name].reshape(-1).view(np.uint8).data)


def write_documents(
    folder: Path,
    config: Mapping[str, Any],
    files: Mapping[str, Sequence[str]],
    tensors: Tensors,
    tokenizer: Any,
    generation: Mapping[str, Any] | None,
) -> None:
    """Write what goes with the tensors. The ids of special tokens are the tokenizer's, where `generation` has none."""
    documents: dict[str, dict[str, Any]] = {"config.json": dict(config)}
    if len(files) > 1:
        where = {name: file for file, names in files.items() for name in names}
        total = {"total_size": sum(map(size_of, tensors.heads.values()))}
        documents[INDEX] = {"metadata": total, "weight_map": where}
    if tokenizer:
        tokenizer.save_pretrained(folder)
        ids = {name: getattr(tokenizer, name) for name in TOKENS}
        if config.get("pad_token_id") in range(config.get("vocab_size", 0)):
            ids["pad_token_id"] = config["pad_token_id"]  # by which some models count positions
        documents["config.json"] |= ids
        if generation is not None:
            ids["decoder_start_token_id"] = config.get("decoder_start_token_id")
            generation = {k: v for k, v in ids.items() if v is not None} | dict(generation)
    if generation:
        documents["generation_config.json"] = dict(generation)
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=2) + "\n")
