"""The names of classes, as files have them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from .messages import UserError
from .hf_files import LABELS
from .files import parse_json


def labels_in(file: Path) -> tuple[str, ...]:
    """Return the names of classes that the header of a safetensors file has, by number; () for none. Raises UserError."""
    try:
        notes = safe_open(file, framework="np").metadata() or {}
        names = parse_json(notes.get(LABELS, "[]"))
        return tuple(map(str, names)) if isinstance(names, list) else ()
    except (OSError, ValueError, SafetensorError) as error:
        raise UserError(f"--init: {file} is damaged or missing: {error}") from None


def name_labels(names: Sequence[str], count: int = 0) -> dict[str, Any]:
    """Return what config.json says of labels: of `count`, where some have no name, by that of transformers.

    Raises UserError where there are more names.
    """
    if 0 < count < len(names):
        raise UserError(
            f"classes() in pipeline.py names {len(names)} classes, and the model has {count}: "
            "let it name those that the run was trained on"
        )
    named = {str(number): name for number, name in enumerate(names)}
    named |= {str(number): f"LABEL_{number}" for number in range(len(names), count)}
    numbers = {name: int(number) for number, name in named.items()}
    return {"num_labels": len(named), "id2label": named, "label2id": numbers}
