"""A model as a manifest records it: an update needs neither the checkpoint nor transformers."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from redco_new.models.families import FAMILIES
from redco_new.models.family import Family, Settings
from redco_new.models.find import Model, is_checkpoint
from redco_new.models.hf_config import CONFIG, checkpoint_folder
from redco_new.request import is_folder

MODELS = Path(__file__).parent


def record(
    model: Model, name: str, size: str, shards: int, folder: Path, context: int = 1
) -> dict[str, Any]:
    """Return plain data, of which `recall` makes the model again.

    name, size, shards, folder, context: as find_model has them.
    """
    parts = (
        model.family.name,
        model.title,
        dict(model.hf),
        asdict(model.full),
        asdict(model.tiny),
        model.tokenizer,
    )
    # As Python, which keeps the order of keys and tells tuples from lists, as emitted code does.
    return {
        "key": record_key(name, size, shards, folder, context),
        "source": model.source,
        "found": repr(parts),
    }


def recall(
    recorded: Mapping[str, Any] | None,
    name: str,
    size: str,
    shards: int,
    folder: Path,
    context: int = 1,
) -> Model | None:
    """Return the recorded model; None if another is wanted, or the record cannot be read.

    A record of another version of redco cannot be read: the model is found anew.
    """
    try:
        if not recorded:
            return None
        key = record_key(name, size, shards, folder, context)
        if not key or recorded["key"] != key:
            return None
        family_name, title, hf, full, tiny, tokenizer = ast.literal_eval(recorded["found"])
        family = FAMILIES[family_name]
        return Model(
            family,
            title,
            hf,
            _settings(family, full),
            _settings(family, tiny),
            tokenizer,
            recorded["source"],
            absent=is_folder(name) and not (checkpoint_folder(name, folder) / CONFIG).is_file(),
        )
    except (ValueError, TypeError, KeyError, SyntaxError):  # a manifest is input: it is read anew
        return None


def _settings(family: Family, parts: dict[str, Any]) -> Settings:
    """Return Settings of what asdict made of them. Raises TypeError if it has other fields."""
    return Settings(**parts | {"quirks": family.quirks(**parts["quirks"])})


def record_key(name: str, size: str, shards: int, folder: Path, context: int = 1) -> str:
    """Return a hash of all that a model follows from; "" for an id of the hub, which may change.

    A checkpoint that is not there counts by its name alone.
    """
    text = ""
    if is_folder(name):
        file = checkpoint_folder(name, folder) / CONFIG
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
    elif is_checkpoint(name):
        return ""
    source = json.dumps([name, size, shards, context, text, code_version()])
    return hashlib.sha256(source.encode()).hexdigest()


@cache
def code_version() -> str:
    """Return a hash of the code that reads models: it tells one version of redco from another."""
    texts = [path.read_bytes() for path in sorted(MODELS.rglob("*.py"))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()
