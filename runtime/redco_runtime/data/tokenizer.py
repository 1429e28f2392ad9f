"""The tokenizer of a run; and texts to ids, in any process, by a tokenizer of Hugging Face as plain data."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..base.messages import UserError, print_once
from ..base.hf_files import use_cache_without_network

FILES = ("tokenizer*", "vocab*", "*.model", "*.tiktoken")  # one of which each folder of one has
PLAIN = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}


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


@dataclass(frozen=True)
class Encoder:
    """What makes the ids of texts."""

    begin: list[int]  # ids before those of a document: what the tokenizer adds
    end: list[int]  # and behind: the same, or its end of text
    dtype: str  # of the ids in a file
    offset: int | None = None  # the id of the byte 0, where tokens are bytes
    # JSON of the package tokenizers; the vocabulary of one that is code in Python.
    backend: str = ""
    python: Any = None  # the latter, which other processes may not have

    def __call__(self, texts: list[str]) -> list[np.ndarray]:
        """Return the ids of each text, without `begin` and `end`."""
        if self.offset is not None:  # by transformers it is a loop over characters in Python
            data = [np.frombuffer(text.encode(), np.uint8) for text in texts]
            return [ids.astype(self.dtype) + np.array(self.offset, self.dtype) for ids in data]
        if self.python:
            rows = self.python(texts, **PLAIN)["input_ids"]
        else:
            encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            rows = [encoding.ids for encoding in encodings]
        return [np.asarray(ids, self.dtype) for ids in rows]

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(self.backend)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def dump(self) -> str:
        """Return it as JSON: texts become the same ids where it is the same."""
        return json.dumps(asdict(replace(self, python=None)))


def make_encoder(tokenizer: Any) -> Encoder:
    """Return what encodes as a tokenizer of transformers does."""
    dtype = id_dtype(tokenizer)
    if type(tokenizer).__name__ == "ByT5Tokenizer":
        bare = Encoder([], [], dtype, offset=tokenizer.offset)
    elif tokenizer.is_fast:
        bare = Encoder([], [], dtype, backend=tokenizer.backend_tokenizer.to_str())
    else:
        backend = json.dumps(tokenizer.get_vocab(), sort_keys=True)
        bare = Encoder([], [], dtype, backend=backend, python=tokenizer)
    (ids,), framed = bare(["a"]), tokenizer("a")["input_ids"]
    start = framed.index(ids[0])
    begin, end = framed[:start], framed[start + len(ids) :]
    if not end and tokenizer.eos_token_id is not None:
        end = [tokenizer.eos_token_id]
    return replace(bare, begin=begin, end=end)


def id_dtype(tokenizer: Any) -> str:
    """Return the dtype that the ids of a tokenizer have in a file."""
    return "uint16" if len(tokenizer) <= 2**16 else "uint32"
