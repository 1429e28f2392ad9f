"""A model of Hugging Face that is no family's, or is to go via PyTorch: the class of transformers that its config names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from redco_new.errors import RedcoError
from redco_new.models.families import FAMILIES
from redco_new.models.find import is_checkpoint
from redco_new.models.hf_config import (
    checkpoint_config,
    import_transformers,
    read_source,
    text_keys,
)
from redco_new.own.find import without_torch
from redco_new.own.maker import call_user_code
from redco_new.pytorch.config_lists import without_implied
from redco_new.pytorch.install import is_torch
from redco_new.pytorch.kinds import class_inputs
from redco_new.request import TORCH, Request
from redco_new.request.lookup import look_up
from redco_new.request.own_class import NONE, OwnClass, check_plain

TRANSFORMERS = "transformers"
LENGTH = (
    128  # tokens of an example, where nothing says how many: as many as a CPU takes in a second
)
# Keys that say nothing of the program, or are said otherwise.
OTHERS = """architectures auto_map bos_token_id dtype eos_token_id model_type torch_dtype transformers_version
    use_cache""".split()
# What classes of transformers that answer texts are called, and where their config has the part that reads images.
ANSWERS, PICTURES = "ForConditionalGeneration", "vision_config"


def as_class(request: Request) -> Request:
    """Return a request for the class that a model's config names, with the config's keys as its arguments.

    Raises RedcoError where transformers has no such class, or it is code of the checkpoint's own.
    """
    name, checkpoint = request.model, ""
    source: Mapping[str, Any]
    if is_checkpoint(name):
        checkpoint = name
        source = text_keys(checkpoint_config(name, request.folder, None)[0])
        read_source(source, name)  # which refuses what no class can have
    else:
        family = look_up("model", name, FAMILIES)
        size = request.size or next(iter(family.sizes))
        chosen = look_up("size", size, family.sizes).config
        kind = {"model_type": family.model_type, "architectures": [family.architecture]}
        source = {**family.defaults, **chosen, **kind}
    class_name = _class_name(name, source)
    own = OwnClass(_arguments(source, class_name), source=f"config.json of {name}")
    model = f"{TRANSFORMERS}:{class_name}"
    request = replace(request, model=model, own=own, size="", via=TORCH)
    return replace(request, checkpoint=checkpoint)


def with_inputs(own: OwnClass, cls: Any) -> OwnClass:
    """Return what is said of a class of transformers, with what it reads as its inputs where nothing says them."""
    import_transformers(TRANSFORMERS).logging.set_verbosity_error()  # of sizes that are tried
    if own.inputs or own.example:
        return own
    arguments = {name: as_json(value) for name, value in own.arguments.items()}
    inputs = call_user_code(cls.__name__, lambda: class_inputs(cls, arguments, LENGTH))
    return replace(own, inputs=inputs)


def as_json(value: Any) -> Any:
    """Return plain data as JSON has it, which configs of transformers ask for: lists, no tuples, and null."""
    if value == NONE:
        return None
    if isinstance(value, Mapping):
        return {key: as_json(part) for key, part in value.items()}
    return [as_json(part) for part in value] if isinstance(value, tuple) else value


def _class_name(name: str, source: Mapping[str, Any]) -> str:
    """Return the class that `architectures` of a config.json names, of transformers. Raises RedcoError."""
    where, names = f"config.json of {name}", source.get("architectures")
    first = names[0] if isinstance(names, list) and names else None
    if not (isinstance(first, str) and first.isidentifier() and first.isascii()):
        raise RedcoError(where, f"architectures is {names!r}, and names no class", "correct it")
    if first.endswith(ANSWERS) and PICTURES in source:
        what = f"{first} reads images beside texts, which no recipe trains"
        raise RedcoError(where, what, "give a model of texts, or one of images")
    if find_spec("torch") is None:  # transformers has its classes by name alone then
        raise without_torch()
    there = getattr(import_transformers(name), first, None)
    if is_torch(there) and getattr(there, "config_class", None):
        return first
    if "auto_map" in source:
        what = f"{first} is code of the checkpoint's own (auto_map), which is not run"
        raise RedcoError(where, what, f"read it, and give its file: --model FILE.py:{first}")
    todo = "correct it, or give a class of your own: --model FILE.py:NAME"
    raise RedcoError(
        where, f"transformers has no class {first} of PyTorch, which architectures names", todo
    )


def _arguments(source: Mapping[str, Any], class_name: str) -> dict[str, Any]:
    """Return the keys of a config.json that a redco.toml can hold, but those that say what it is of."""
    config_class = getattr(import_transformers(class_name), class_name).config_class
    default = vars(config_class())
    # Targets end with the token that the config says.
    others = {*OTHERS} - ({"eos_token_id"} if default.get("is_encoder_decoder") else set())
    arguments = {}
    for key, value in without_implied(config_class, source).items():
        if key in others or not key.isidentifier() or key not in default:
            continue
        if _as_list(value) == _as_list(default[key]) and not _is_plain(value):  # which TOML has not
            continue
        if not _is_plain(value := _with_words(value)):
            what = f"{key} is {value!r}, which no redco.toml can hold"
            raise RedcoError("config.json", what, "give a file of your own: --model FILE.py:NAME")
        arguments[key] = check_plain(key, value)
    return arguments


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _with_words(value: Any) -> Any:
    """Return a value of JSON with a word for null, which TOML has not."""
    if isinstance(value, dict):
        return {key: _with_words(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_words(part) for part in value]
    return NONE if value is None else value


def _is_plain(value: Any) -> bool:
    """Return whether TOML has a value."""
    if isinstance(value, list | dict):
        parts = value.values() if isinstance(value, dict) else value
        return all(map(_is_plain, parts))
    return isinstance(value, bool | int | str) or isinstance(value, float) and math.isfinite(value)
