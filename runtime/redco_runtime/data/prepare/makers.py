"""What makes documents, from the JSON that another process sends."""

import json
from importlib import import_module
from typing import Any

from ..text.documents import Maker
from ..text.request import RUNTIME


def load_maker(line: str) -> Maker:
    """Return the maker of a line by `dump_maker`."""

    def real(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "tokenizer" in value:
            from transformers import AutoTokenizer  # late: texts are tokenized without

            return AutoTokenizer.from_pretrained(value["tokenizer"], trust_remote_code=False)
        if not value["module"].startswith(f"{RUNTIME}."):
            raise ValueError(f"no class of {RUNTIME}: {value['module']}")
        parts = {name: real(part) for name, part in value["fields"].items()}
        return getattr(import_module(value["module"]), value["class"])(**parts)

    maker: Maker = real(json.loads(line))
    return maker
