"""A model as redco remembers it: an update needs neither the checkpoint nor transformers to know it."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from redco_new.request import is_folder
from redco_new.models.families import FAMILIES
from redco_new.models.family import Settings
from redco_new.models.find import CONFIG, Model, checkpoint_folder, is_checkpoint

SOURCES = Path(__file__).parent


def record(model: Model, name: str, size: str, shards: int, folder: Path) -> dict[str, Any]:
    """What `recall` makes the model of again: plain data.

    name, size, shards, folder: as find_model has them.
    """
    parts = (
        model.family.name,
        model.title,
        dict(model.hf),
        vars(model.full),
        vars(model.tiny),
        model.tokenizer,
    )
    # As Python, which keeps the order of keys and tells tuples from lists, as the emitted code does.
    return {
        "key": key(name, size, shards, folder),
        "source": model.source,
        "found": repr(parts),
    }


def recall(
    recorded: Mapping[str, Any] | None, name: str, size: str, shards: int, folder: Path
) -> Model | None:
    """The model that was recorded; None if it is not the one that is asked for, or cannot be read."""
    try:
        if not recorded or not (now := key(name, size, shards, folder)) or recorded["key"] != now:
            return None
        family, title, hf, full, tiny, tokenizer = ast.literal_eval(recorded["found"])
        return Model(
            FAMILIES[family],
            title,
            hf,
            Settings(**full),
            Settings(**tiny),
            tokenizer,
            recorded["source"],
            absent=is_folder(name) and not (checkpoint_folder(name, folder) / CONFIG).is_file(),
        )
    except (ValueError, TypeError, KeyError, SyntaxError):  # a manifest is input: it is read anew
        return None


def key(name: str, size: str, shards: int, folder: Path) -> str:
    """Tells what a model follows from; "" of an id of the hub, where it may change at any time.

    A checkpoint that is not there is known by its name alone.
    """
    text = ""
    if is_folder(name):
        file = checkpoint_folder(name, folder) / CONFIG
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
    elif is_checkpoint(name):
        return ""
    told = json.dumps([name, size, shards, text, code()])
    return hashlib.sha256(told.encode()).hexdigest()


@cache
def code() -> str:
    """What tells one version of the reading of models from another."""
    texts = [path.read_bytes() for path in sorted(SOURCES.rglob("*.py"))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()
