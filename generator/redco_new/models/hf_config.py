"""Hugging Face's config.json: where it is, transformers' class of it, and reading it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

from packaging.version import Version

from redco_new.errors import RedcoError
from redco_new.models.activations import ACTIVATIONS
from redco_new.render.execute import use_runtime
from redco_new.render.values import is_number
from redco_new.request import is_folder

CONFIG = "config.json"

# The oldest transformers that reads configs as redco does: 5 has the rotations of a model as
# `rope_parameters`, and other defaults than 4 in most families, which a project would print.
TRANSFORMERS = 5

# Of a model: transformers makes a list of its layers, of whatever length. Ten times those of the deepest that was
# trained, which has 1,000 (Wang et al. 2022).
MOST_LAYERS = 10_000

# Of a model of several parts: the part that writes texts, and what it says of every part.
TEXT_PART = "text_config"
# What PEFT calls that part within the whole, of kinds that are not as transformers has most: kind -> what "model." of it is there.
_USUAL, _WITHIN = "model.language_model.", {
    **dict.fromkeys(("idefics2", "idefics3", "smolvlm"), "model.text_model."),
    **dict.fromkeys(("llama4", "nemotron_h_omni"), "language_model.model."),
}  # fmt: skip
# Kinds of which transformers' class leaves out how that part scales its logits, and those that are never called without images.
_NEVER_APART = ("aya_vision", "cohere2_vision", "blip-2", "instructblip", "instructblipvideo")
TEXT_ALONE = "{name} reads more than texts: the part that writes them is trained alone, and exported, as {architecture}"
_OF_ALL_PARTS = """bos_token_id eos_token_id pad_token_id quantization_config
    tie_word_embeddings""".split()

# Keys that say nothing of a model's sizes: versions, places, and what a family says itself.
_LEFT_OUT = {"_name_or_path", "transformers_version", "dtype", "architectures", "model_type"}

# Keys that transformers works out of others, has by another name, or drops, as those of generation.
_IMPLIED = ("num_labels", "num_experts", "forced_bos_token_id")
# Of these, those that its classes still write: key -> that which it follows from.
_FOLLOWS = {
    "layer_types": "num_hidden_layers",
    **dict.fromkeys(("_sliding_window_pattern", "sliding_window_pattern"), "num_hidden_layers"),
    "num_local_experts": "num_experts",
    "pooler_output_size": "hidden_size",
    **dict.fromkeys(("id2label", "label2id"), "num_labels"),
}


def import_transformers(name: str) -> ModuleType:
    """Import transformers, which takes a second, for the model `name`. Raises RedcoError if it is too old."""
    try:
        version = metadata.version("transformers")
    except metadata.PackageNotFoundError:
        version = "0"
    if Version(version).major < TRANSFORMERS:
        is_there = "there is none here" if version == "0" else f"here is {version}"
        what = f"{name} is read by transformers {TRANSFORMERS} or newer, and {is_there}"
        todo = (
            f'pip install "transformers>={TRANSFORMERS}", or give a class of your own, FILE.py:NAME'
        )
        raise RedcoError("--model", what, todo)
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # that PyTorch is missing
    import transformers

    return transformers


def checkpoint_folder(name: str, folder: Path) -> Path:
    """Return a checkpoint's path, made from `folder`, the project's, which may not exist yet."""
    return Path(os.path.normpath(folder.resolve() / name))


def checkpoint_config(
    name: str, folder: Path, recorded: Mapping[str, Any] | None
) -> tuple[dict[str, Any], bool]:
    """Return a checkpoint's config.json, or `recorded` in its absence, and whether it is absent.

    name: a path from `folder`, or an id of Hugging Face's hub.
    Raises RedcoError if there is none.
    """
    path = checkpoint_folder(name, folder) if is_folder(name) else None
    if path is not None and not (path / CONFIG).is_file():
        if recorded is None:
            raise RedcoError("--model", f"{path} has no config.json", "give a checkpoint's folder")
        return _public_keys(name, recorded), True
    read = import_transformers(name).PretrainedConfig.get_config_dict
    offline = "" if path else _offline()
    try:
        return _public_keys(name, read(str(path or name))[0]), False
    except (OSError, ValueError, RecursionError, TypeError, AttributeError) as error:
        if path is not None or recorded is None:
            what = f"{name}: {offline or str(error).strip().splitlines()[0]}"
            todo = "check the name and the network; a gated model needs `hf auth login`"
            raise RedcoError("--model", what, todo) from error
        return _public_keys(name, recorded), True


def _offline() -> str:
    """Return why an id of the hub cannot be read where it is not in the cache; "" where the hub answers."""
    use_runtime()
    from redco_runtime.base.hf_files import use_cache_without_network

    return use_cache_without_network()


def _public_keys(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a config.json but those that transformers adds. Raises RedcoError."""
    if not isinstance(config.get("model_type"), str):
        raise RedcoError("--model", f"{name}: config.json has no model_type", "add it")
    return {key: value for key, value in config.items() if not key.startswith("_")}


def text_keys(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a config.json says of the part that writes texts, where that is a class of its own in transformers; else all of it.

    source: keys of a checkpoint's, which may read images or sound beside texts
    """
    part = source.get(TEXT_PART)
    if not isinstance(part, dict) or not isinstance(part.get("model_type"), str):
        return source
    if source["model_type"] in _NEVER_APART:
        return source
    import_transformers(source["model_type"])
    from transformers.models.auto import modeling_auto as auto

    kind = part["model_type"]
    name = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(kind)
    of_pairs = kind in auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES  # of which it is a half
    if not isinstance(name, str) or of_pairs or source.get("architectures") == [name]:
        return source
    shared = {key: source[key] for key in _OF_ALL_PARTS if key in source}
    return {**part, **shared, "architectures": [name]}


def names_within(source: Mapping[str, Any]) -> dict[str, str]:
    """Return parts of the names of tensors of what writes texts -> in the whole, as PEFT has it; {} where that is the whole.

    source: keys of a checkpoint's config.json
    """
    if text_keys(source) is source:
        return {}
    return {"model.": _WITHIN.get(source["model_type"], _USUAL)}


def config_class(model_type: str, name: str = "") -> Any:
    """Return transformers' config class for a model_type.

    name: of the model, for messages.
    Raises KeyError if there is none, and RedcoError if transformers is too old.
    """
    transformers = import_transformers(name or model_type)
    transformers.logging.set_verbosity_error()
    return transformers.CONFIG_MAPPING[model_type]


def read_source(source: Mapping[str, Any], name: str) -> Any:
    """Return transformers' config of the keys of a checkpoint's config.json. Raises RedcoError.

    name: of the checkpoint.
    """
    if method := source.get("quantization_config"):
        kind = method.get("quant_method") if isinstance(method, dict) else None
        stored = f"its weights are quantized ({kind or 'quantization_config'})"
        todo = (
            "name the checkpoint that it was made of, in 16 or 32 bits; --lora base=nf4 quantizes"
        )
        raise RedcoError(f"config.json of {name}", stored, todo)
    for key, value in source.items():
        if key.endswith(("layer", "layers")) and is_number(value) and value > MOST_LAYERS:
            what = f"{key} is {value!r}, and more than {MOST_LAYERS} layers"
            raise RedcoError(f"config.json of {name}", what, "mend that value")
    try:
        return config_class(source["model_type"], name).from_dict(source, name_or_path=name)
    except RedcoError:
        raise
    except (
        Exception
    ) as error:  # of many kinds: transformers checks some values, and computes with all
        reason = " ".join(str(error).split())[:200]
        what = f"transformers cannot read it: {type(error).__name__}: {reason}"
        raise RedcoError(f"config.json of {name}", what, "mend that value") from error


def make_config(model_type: str, keys: Mapping[str, Any], name: str = "") -> SimpleNamespace:
    """Return a config: each key of config.json, what it leaves to its class too, is an attribute.

    name: of the model, for messages.
    """
    return SimpleNamespace(**keys, model_type=model_type, name_or_path=name)


def read_transformers(config: Any, source: Mapping[str, Any]) -> SimpleNamespace:
    """Return the config that a transformers config is, which was made of the keys `source`."""
    keys = {key: value for key, value in config.to_diff_dict().items() if key not in _LEFT_OUT}
    keys |= {key: getattr(config, key) for key in _IMPLIED if hasattr(config, key)}
    keys |= {key: source[key] for key in _IMPLIED if key in source}
    return make_config(config.model_type, keys, config.name_or_path)


def change_config(config: SimpleNamespace, changes: Mapping[str, Any]) -> SimpleNamespace:
    """Return a config with other values of some keys."""
    return SimpleNamespace(**{**vars(config), **changes})


def printed_keys(config: SimpleNamespace, besides: set[str]) -> dict[str, Any]:
    """Return the keys of a config that say more than `besides`, which its emitted weights.py works out."""
    follow = {key for key, other in _FOLLOWS.items() if other in besides}
    left_out = {*_LEFT_OUT, *_IMPLIED, *follow, *besides, "name_or_path"}
    return {key: value for key, value in sorted(vars(config).items()) if key not in left_out}


def read_keys(config: Any, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields that `keys` names, of a config."""
    return {field: getattr(config, key, None) for field, key in keys.items()}


def read_activation(config: Any, key: str) -> str:
    """Return the activation that `key` of a config names. Raises RedcoError."""
    name = getattr(config, key)
    if not isinstance(name, str) or name not in ACTIVATIONS:
        refuse(config, f"{key} is {name!r}, and redco knows {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def check_equal(config: Any, **values: Any) -> None:
    """Raise RedcoError for the first key of a config that has another value."""
    for key, value in values.items():
        actual = getattr(config, key, value)
        if actual != value:
            refuse(config, f"{key} is {actual!r}, and redco's {config.model_type} has {value!r}")


def refuse(config: Any, what: str) -> NoReturn:
    """Raise RedcoError for what a family cannot honour in a config."""
    where = f"config.json of {config.name_or_path or config.model_type}"
    raise RedcoError(where, what, "use another checkpoint, or a class of your own")
