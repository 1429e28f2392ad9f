"""The tokenizer of a run."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from ..base.hf_files import use_cache_without_network
from ..base.output import print_once

FILES = ("tokenizer*", "vocab*", "*.model", "*.tiktoken")  # one of which each folder of one has


def load_tokenizer(name: str, **settings: Any) -> Any:
    """Return a tokenizer of Hugging Face: by id or folder, or "bytes", with a token a byte and no files.

    settings: of the tokenizer "bytes".
    Raises UserError where there is none.
    """
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # that PyTorch is missing
    import transformers

    if name == "bytes":

        class ByT5Tokenizer(transformers.ByT5Tokenizer):
            """As it is, but for ids that a model has room for and no byte is: they are no text."""

            def convert_tokens_to_string(self, tokens: list[str]) -> str:
                written = [token for token in tokens if len(token) > 1 or ord(token) < 256]
                return str(super().convert_tokens_to_string(written))

        return ByT5Tokenizer(**settings)
    todo = "give --tokenizer FOLDER_OR_ID of one that fits the model, or --tokenizer bytes"
    path = name.startswith(("/", ".", "~")) or name.count("/") > 1  # and no id of the hub
    if path and not Path(name).is_dir():
        raise UserError(f"--tokenizer: {name}: there is no such folder: {todo}")
    if lacks_tokenizer(name):
        raise UserError(f"--tokenizer: {name} has no tokenizer: {todo}")
    offline = "" if Path(name).is_dir() else use_cache_without_network()
    try:
        return transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except Exception as error:  # of any kind: its readers are written in several languages
        reason = offline or (str(error).strip() or repr(error)).splitlines()[0]
        raise UserError(f"--tokenizer: {name} cannot be read: {reason}; {todo}") from None


def lacks_tokenizer(name: str) -> bool:
    """Return whether a name is that of a folder without one, as of a checkpoint that is weights alone."""
    folder = Path(name)
    return folder.is_dir() and not any(next(folder.glob(pattern), None) for pattern in FILES)


def tokenizer_if_any(load: Callable[[str], Any], name: str) -> Any:
    """Return load(name), or None, which is said, where `name` is a folder that lacks one."""
    if lacks_tokenizer(name):
        print_once(f"{name} has no tokenizer, so there is none to go with what is written")
        return None
    return load(name)
