"""Texts to ids, in any process: a tokenizer of Hugging Face as plain data."""

import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

PLAIN = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}


@dataclass(frozen=True)
class Encoder:
    """What makes the ids of texts."""

    begin: list[int]  # ids before those of a document: what the tokenizer adds
    end: list[int]  # and behind: the same, or its end of text
    dtype: str  # of the ids in a file
    offset: int | None = None  # the id of the byte 0, where tokens are bytes
    backend: str = (
        ""  # JSON of the package tokenizers; the vocabulary of one that is code in Python
    )
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
