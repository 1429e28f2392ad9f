"""Arrays in files, read a slice at a time; a checkpoint of safetensors, as Hugging Face lays one out."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from .messages import UserError, listed
from .files import is_bucket, parse_json, path_of, scheme_of

ONE, INDEX = "model.safetensors", "model.safetensors.index.json"
CONFIGS = ("config.json", "generation_config.json", "preprocessor_config.json")
DOWNLOADED = [*CONFIGS, ONE, INDEX, "model-*.safetensors"]
# The file of an adapter of PEFT that names the model that it is of, and where.
ADAPTER, BASE = "adapter_config.json", "base_model_name_or_path"
WEIGHTS = "adapter_model.safetensors"  # beside it
LABELS = "labels"  # of the header of a file of tensors: the names of classes, as JSON
# Keys of config.json that change no number of a forward pass without dropout.
UNCOMPARED = """_name_or_path architectures dtype transformers_version init* *_token_id *drop*
    use_cache output_* return_dict chunk_size_feed_forward problem_type id2label label2id
    task_specific_params summary_* classifier_* router_aux_loss_coef""".split()
IDS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}  # that any vocabulary has
LAYERS = 10_000  # at most: transformers makes a list of them, of whatever length
SECONDS = 5.0  # that an answer of the hub may take: its libraries try six times, in half a minute
PICKLES = (".bin", ".ckpt", ".pt", ".pth")  # as PyTorch writes them, which are not read
PART = re.compile(r"\b(language|text)_model\.|^(?=lm_head\.)")  # in names of what has other parts
DERIVED = ("n_inner", "head_dim")  # null: from other sizes, as the shapes of tensors show


class Stored:
    """Arrays in the file or folder `path`.

    arrays: name -> what has a shape, and reads a slice when it is indexed.
    shapes: name -> shape.
    """

    def __init__(self, path: Path, arrays: Mapping[str, Any]) -> None:
        self.path, self._arrays = path, arrays
        self.shapes = {name: tuple(array.shape) for name, array in arrays.items()}

    def read(self, name: str, index: tuple[slice, ...]) -> np.ndarray:
        """Return a slice of an array, in its stored dtype. Raises UserError where it is damaged."""
        try:
            return np.asarray(self._arrays[name][index])
        except (OSError, ValueError, SafetensorError) as error:
            raise UserError(f"--init: {name} of {self.path} is damaged: {error}") from None


@dataclass(frozen=True)
class Slices:
    """A tensor in a safetensors file, of which no more is read than the slices that are asked for."""

    file: Any
    name: str

    @property
    def shape(self) -> list[int]:
        """The sizes of its dims."""
        return self.file.get_slice(self.name).get_shape()

    def __getitem__(self, index: tuple[slice, ...]) -> np.ndarray:
        return self.file.get_slice(self.name)[index] if index else self.file.get_tensor(self.name)


def open_tensors(path: Path) -> dict[str, Slices]:
    """Return name -> tensor of a safetensors file, or of a folder of them. Reads their heads.

    Raises UserError where they are not there or not whole.
    """
    tensors: dict[str, Slices] = {}
    for one in tensor_files(path):
        try:
            file = safe_open(one, framework="np")
        except (OSError, SafetensorError) as error:
            raise UserError(f"--init: {one} is damaged or missing: {error}") from None
        tensors |= {name: Slices(file, name) for name in file.keys()}
    return tensors


def open_checkpoint(folder: Path, ours: Mapping[str, Any]) -> Stored:
    """Return the tensors of a checkpoint; of one that reads more than texts those of the part that check_config finds to be ours, as that alone calls them."""
    tensors = open_tensors(folder)
    if check_config(folder, ours):
        tensors = {PART.sub("", k, 1): x for k, x in tensors.items() if PART.search(k)}
    return Stored(folder, tensors)


def check_config(folder: Path, ours: Mapping[str, Any]) -> bool:
    """Return whether what has a folder's config.json reads more than texts, and `ours` is the part of it that writes them.

    Raises UserError that names each key whose value changes the model.
    """
    theirs = read_json(folder / "config.json")
    part = theirs.get("text_config")
    if is_part := isinstance(part, dict) and part.get("model_type") == ours["model_type"]:
        theirs = part | {k: x for k, x in theirs.items() if k == "tie_word_embeddings"}
    if theirs.get("model_type") == ours["model_type"]:
        ours, theirs = complete(ours, "weights.py"), complete(theirs, folder)
    else:
        ours = {"model_type": ours["model_type"]}
    faults = [
        f"{key}: there {theirs.get(key)}, here {here}"
        for key, here in ours.items()
        if here != theirs.get(key) and not (key in DERIVED and None in (here, theirs.get(key)))
    ]
    if faults:
        title = f"--init: {folder} is not the model of config.py:"
        todo = "Choose the --preset and sizes that it has, or another checkpoint."
        raise UserError(listed(title, faults, todo))
    return is_part


def complete(config: Mapping[str, Any], where: Any) -> dict[str, Any]:
    """Return what makes the model, of a config.json and of the defaults of transformers."""
    deep = [k for k, v in config.items() if k.endswith("layers") and type(v) is int and v > LAYERS]
    if deep:
        raise UserError(f"--init: {where} has {config[deep[0]]} layers by {deep[0]}: mend that")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # that PyTorch is missing
    from transformers import CONFIG_MAPPING  # late: it takes a second

    def compared(config: Mapping[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in config.items() if not any(fnmatchcase(k, p) for p in UNCOMPARED)}

    try:
        kind = CONFIG_MAPPING[config["model_type"]]
        return compared(kind.from_dict(compared(config) | IDS).to_dict())
    except Exception as error:
        what = f"transformers cannot read the config of {where}"
        raise UserError(f"--init: {what}: {error}") from error


def folder_of(source: str) -> Path:
    """Return the file or folder of a path; of a bucket a copy of what it has of DOWNLOADED. Raises UserError."""
    path = path_of(source)
    if not is_bucket(path):
        return Path(path)
    try:
        return path.copy_here([*DOWNLOADED, ADAPTER, WEIGHTS])
    except OSError as error:
        raise UserError(f"--init: {source} cannot be read: {error}") from None


def find(source: str) -> Path:
    """Return the file or folder `source`, or a copy of what Hugging Face has under that id."""
    if (folder := folder_of(source)).exists():
        return folder
    if scheme_of(source):
        raise UserError(f"--init: {source} has no {ONE}, {INDEX} or {ADAPTER}: check its name")
    offline = use_cache_without_network()
    import huggingface_hub  # late: it takes a while

    try:
        return Path(huggingface_hub.snapshot_download(source, allow_patterns=DOWNLOADED))
    except (OSError, ValueError) as error:  # HTTP errors and ids that cannot be are of these too
        why = offline or str(error).strip().splitlines()[0]
        raise UserError(
            f"--init: {source} is not there, and Hugging Face does not give it: {why}; check the "
            "name and the network; a gated model needs `hf auth login`"
        ) from error


def tensor_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a checkpoint. Raises UserError where there are none."""
    if folder.is_file():
        if folder.suffix in PICKLES:
            todo = 'write model.safetensors, by safetensors.torch.save_model(model, "model.safetensors")'
            raise UserError(f"--init: {folder} is a pickle, which can run any code; {todo}")
        return [folder]
    if (folder / INDEX).exists():
        where = read_json(folder / INDEX).get("weight_map")
        names: list[Any] = [*where.values()] if isinstance(where, dict) else [None]
        for name in names:
            if not isinstance(name, str) or name in ("", "..") or Path(name).name != name:
                what = f"has a tensor in {name!r}, which is no file beside it"
                raise UserError(f"--init: {folder / INDEX} {what}: use another checkpoint")
        return [folder / name for name in dict.fromkeys(names)]
    if (folder / ONE).exists():
        return [folder / ONE]
    pickles = ", ".join(sorted(path.name for path in folder.glob("*.bin")))
    raise UserError(
        f"--init: {folder} has no {ONE} and no {INDEX}"
        + (f"; {pickles} is a pickle, which can run any code" if pickles else "")
        + "; convert what it has with from_pretrained(...).save_pretrained(...) of transformers"
    )


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object. Raises UserError where there is none."""
    try:
        return dict(parse_json(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"--init: {path} cannot be read: {error}") from None


def base_of(source: str | None) -> str:
    """Return the checkpoint that a run's --init stands for: that of its base, where it is an adapter's.

    Raises UserError where an adapter names none.
    """
    if not source or not (folder_of(source) / ADAPTER).exists():
        return source or ""
    base = read_json(folder_of(source) / ADAPTER).get(BASE)
    if not isinstance(base, str) or not base or ".." in Path(base).parts:
        raise UserError(
            f"--init: {source} is an adapter whose {BASE} is {base!r}: write the whole path of the "
            f"folder of the model that it is of, or its id, into {ADAPTER}"
        )
    return base


def use_cache_without_network() -> str:
    """Make Hugging Face's libraries read their cache alone where the hub does not answer.

    Returns why a name that is not in the cache cannot be read; "" where the hub answers.
    """
    from huggingface_hub import constants, get_session  # late: it takes a while

    if not constants.HF_HUB_OFFLINE:
        try:
            get_session().head(constants.ENDPOINT, timeout=SECONDS)
            return ""
        except Exception:  # of its library of HTTP, which is one or the other by version
            constants.HF_HUB_OFFLINE = True
    return f"{constants.ENDPOINT} is not reached, and no copy of it is in {constants.HF_HUB_CACHE}"
