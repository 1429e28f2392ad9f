"""What makes documents as JSON, for another process: no pickle, which runs what it is given."""

import json
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from .documents import Maker

PACKAGE = __name__.removesuffix(".data.text.portable")


def dump_maker(maker: Maker, folder: Path) -> str:
    """Return a maker, a dataclass of plain values, of dataclasses and of a tokenizer, as a line of JSON.

    folder: empty, where the tokenizer is saved.
    """

    def plain(value: Any) -> Any:
        if hasattr(value, "save_pretrained"):
            value.save_pretrained(folder)
            return {"tokenizer": str(folder)}
        if is_dataclass(value):
            parts = {field.name: plain(getattr(value, field.name)) for field in fields(value)}
            return {
                "module": type(value).__module__,
                "class": type(value).__name__,
                "fields": parts,
            }
        return value

    return json.dumps(plain(maker))


def load_maker(line: str) -> Maker:
    """Return the maker of a line by `dump_maker`."""

    def real(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "tokenizer" in value:
            from transformers import AutoTokenizer  # late: texts are tokenized without

            return AutoTokenizer.from_pretrained(value["tokenizer"], trust_remote_code=False)
        if not value["module"].startswith(f"{PACKAGE}."):
            raise ValueError(f"no class of {PACKAGE}: {value['module']}")
        parts = {name: real(part) for name, part in value["fields"].items()}
        return getattr(import_module(value["module"]), value["class"])(**parts)

    maker: Maker = real(json.loads(line))
    return maker
