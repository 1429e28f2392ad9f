"""Texts for tests of what reads them."""

import json
from types import SimpleNamespace

from redco_runtime.data.text.text_examples import text_examples

S = 16


class Letters:
    """A tokenizer: an id a byte, and 1 ends a text."""

    eos_token_id, is_fast, all_special_tokens = 1, False, ()

    def __len__(self):
        return 256

    def get_vocab(self):
        return {}

    def __call__(self, texts, add_special_tokens=True, **_):
        if isinstance(texts, str):
            return {"input_ids": [*texts.encode()]}
        return {"input_ids": [[*text.encode()] for text in texts]}


def read(tmp_path, *data, vocabulary=256, **changes):
    settings = {
        "data": data,
        "held_out_data": (),
        "held_out": 0.1,
        "text_field": "text",
        "packing": "on",
        "skip_bad_rows": 0,
        "streaming": False,
        "token_folder": str(tmp_path / "tokens"),
        "sequence_length": S,
    }
    return text_examples(SimpleNamespace(**settings | changes), Letters(), vocabulary)


def write(path, *texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return str(path)


def texts_of(*parts):
    """The pieces of documents in rows, sorted."""
    pieces = []
    for row in (row for rows in parts for row in rows):
        segments = row["segments"] if "segments" in row else row["mask"].astype(int)
        for segment in range(1, segments.max() + 1):
            pieces.append(bytes(row["input_ids"][segments == segment].tolist()))
    return sorted(pieces)


WORDS = ["ab" * (i % 11 + 1) for i in range(200)]
