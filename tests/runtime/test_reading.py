"""Each reader of a file that a user can write, of the runtime: whatever it says, one error, and no traceback."""

import datetime
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
from fuzz import FUZZ, damaged, of_json, refused
from hypothesis import given, settings
from safetensors.numpy import save

from redco_runtime.checkpoints.lora.lora import FILES, Lora
from redco_runtime.checkpoints.lora.peft import base_of, check_sizes
from redco_runtime.data.chats import pairs as preferences
from redco_runtime.data.chats.encoding import ChatEncoder
from redco_runtime.data.chats.reading import read_chat
from redco_runtime.data.completions.questions import QuestionReader
from redco_runtime.base.messages import UserError
from redco_runtime.data.labels.reading import read_text, read_words
from redco_runtime.base.files import read_lines
from redco_runtime.data.pairs.reading import read_pair
from redco_runtime.data.pictures.captioned import TABLE, _read_table
from redco_runtime.run.record import FILE, load_run
from redco_runtime.base.hf_files import INDEX, ONE, Stored, check_config, open_tensors
from redco_runtime.data.text.documents import Bad
from redco_runtime.data.prepare.formats import parse_rows, parts_of, read_items
from redco_runtime.data.text.sources import parse_sources
from redco_runtime.data.text.text_examples import TextMaker
from redco_runtime.data.tokenizer import load_tokenizer

SOME = settings(FUZZ, max_examples=40)


# ---------------------------------------------------------------- rows of data


@cache
def encoder():
    return ChatEncoder(load_tokenizer("bytes"))


ROWS = {
    "text": {"text": "a text"},
    "chat": {
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [{"type": "text", "text": "b"}]},
        ]
    },
    "completion": {"prompt": [{"role": "user", "content": "a"}], "completion": "b"},
    "instruction": {"instruction": "a", "input": "b", "output": "c"},
    "preference": {
        "prompt": "a",
        "chosen": "b",
        "rejected": [{"role": "assistant", "content": "c"}],
    },
    "pair": {"source": "a", "target": "b"},
    "translation": {"translation": {"en": "a", "de": "b"}},
    "labelled": {"text": "a", "label": "x"},
    "words": {"words": ["a", "b"], "labels": [0, "x"]},
    "question": {"prompt": "a", "answer": 5},
}


def parser(kind):
    """What makes of a row what is learned."""
    questions = QuestionReader(
        SimpleNamespace(prompt_field="prompt", answer_field="answer"), encoder(), 99, 300
    )
    return {
        "text": None,
        "preference": lambda row: preferences.PairMaker(encoder(), 99).parse(row),
        "pair": lambda row: read_pair(row, ("", "")),
        "translation": lambda row: read_pair(row, ("en", "de")),
        "labelled": lambda row: read_text(row, ("text", "label"), ("x", "y")),
        "words": lambda row: read_words(row, ("words", "labels"), ("x", "y")),
        "question": questions.parse,
    }.get(kind, lambda row: encoder()(read_chat(row)))


def read_all(path, kind):
    """Read a file of data as a recipe does; rows that are none have a place and a reason."""
    parse = parser(kind)
    for source in parse_sources("--data", [str(path)]):
        for part in parts_of(source):
            rows = parse_rows([part], parse) if parse else read_items(TextMaker(None, "text"), part)
            for row in rows:
                assert not isinstance(row, Bad) or row.why


@pytest.mark.parametrize("kind", ROWS)
@SOME
@given(data=st.data())
def test_rows_of_json(kind, data, tmp_path):
    rows = data.draw(st.lists(of_json(ROWS[kind]), min_size=1, max_size=2))
    path = tmp_path / data.draw(st.sampled_from(["a.jsonl", "a.json"]))
    path.write_bytes(b"\n".join(rows) if path.suffix == ".jsonl" else b"[" + b",".join(rows) + b"]")
    with refused(UserError):
        read_all(path, kind)


@pytest.mark.parametrize("kind", ROWS)
@settings(FUZZ, max_examples=10)
@given(data=st.data())
def test_rows_of_parquet(kind, data, tmp_path):
    import pyarrow
    from pyarrow import parquet

    odd = [None, b"\xff", 1.5, True, datetime.date(2020, 1, 1), {"a": b"x"}, [b"x"], 10**18]
    row = dict(ROWS[kind]) | {
        data.draw(st.sampled_from([*ROWS[kind]])): data.draw(st.sampled_from(odd))
    }
    path = tmp_path / "a.parquet"
    try:
        parquet.write_table(pyarrow.Table.from_pylist([row]), path)
    except (TypeError, pyarrow.ArrowException):  # which no table holds either
        return
    if data.draw(st.booleans()):
        path.write_bytes(data.draw(damaged(path.read_bytes())))
    with refused(UserError):
        read_all(path, kind)


@SOME
@given(text=damaged(b"a,b\n1,\xc3\xa9\n"))
def test_texts(text, tmp_path):
    (tmp_path / "a.txt").write_bytes(text)
    with refused(UserError):
        read_all(tmp_path / "a.txt", "text")


@SOME
@given(text=of_json({"file_name": "a.png", "text": "a red circle"}))
def test_the_table_of_pictures(text, tmp_path):
    (tmp_path / "a.png").touch()
    (tmp_path / TABLE).write_bytes(text)
    with refused(UserError):
        _read_table(tmp_path, 8)


@SOME
@given(text=of_json({"step": 1, "loss": 2.0}))
def test_metrics(text, tmp_path, capsys):
    (tmp_path / "metrics.jsonl").write_bytes(text + b"\n")
    read_lines(tmp_path / "metrics.jsonl", "loss")


# ---------------------------------------------------------------- a run, a checkpoint, an adapter


@dataclass(frozen=True)
class Part:
    steps: int = 1
    name: str = "a"
    data: tuple[str, ...] = ("x",)


@dataclass(frozen=True)
class Config:
    train: Part = field(default_factory=Part)
    model: Part = field(default_factory=Part)


RUN = {
    "config": {"train": {"steps": 1, "name": "a", "data": ["x"]}, "model": {}},
    "mesh": {"data": -1, "model": 2},
}


@FUZZ
@given(text=of_json(RUN | {"virtual_devices": 2, "init": None}))
def test_run_json(text, tmp_path):
    (tmp_path / FILE).write_bytes(text)
    with refused(UserError):
        run = load_run(tmp_path, Config)
        assert isinstance(run.config.train.steps, int) and all(
            type(n) is int for n in run.mesh.values()
        )


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "rope_parameters": {"rope_type": "default", "rope_theta": 5e5},
}


@SOME
@given(text=of_json(LLAMA))
def test_config_json_beside_weights(text, tmp_path):
    (tmp_path / "config.json").write_bytes(text)
    with refused(UserError), warnings.catch_warnings():
        check_config(tmp_path, LLAMA)


@SOME
@given(text=of_json({"metadata": {"total_size": 8}, "weight_map": {"a": ONE, "b": ONE}}))
def test_the_index_of_safetensors(text, tmp_path):
    (tmp_path / ONE).write_bytes(save({"a": np.zeros(2, np.float32)}))
    (tmp_path / INDEX).write_bytes(text)
    with refused(UserError):
        open_tensors(tmp_path)


@FUZZ
@given(data=st.data())
def test_the_header_of_safetensors(data, tmp_path):
    header = {
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "__metadata__": {"format": "pt"},
    }
    text = data.draw(of_json(header))
    size = data.draw(st.sampled_from([len(text)] * 4 + [0, 2**63, len(text) - 1]))
    (tmp_path / ONE).write_bytes(size.to_bytes(8, "little") + text + bytes(8))
    with refused(UserError):
        stored = Stored(tmp_path, open_tensors(tmp_path))
        for name in stored.shapes:
            stored.read(name, ())


@FUZZ
@given(
    text=of_json(
        {
            "peft_type": "LORA",
            "r": 8,
            "lora_alpha": 16,
            "base_model_name_or_path": "../a",
            "use_rslora": True,
        }
    )
)
def test_adapter_config_json(text, tmp_path):
    (tmp_path / FILES[1]).write_bytes(text)
    with refused(UserError):
        base = base_of(str(tmp_path))
        assert isinstance(base, str) and ".." not in Path(base).parts
    with refused(UserError):
        check_sizes(tmp_path, Lora(8, 16.0))


@pytest.fixture(scope="module")
def tokenizer_files(tmp_path_factory):
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("tokenizer")
    tokens = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    tokens.save(str(folder / "tokenizer.json"))
    return folder


TOKENIZER = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "eos_token": "[UNK]",
    "model_max_length": 8,
    "auto_map": {"AutoTokenizer": ["x.Y", None]},
    "chat_template": "{{ messages[0].content }}",
    "added_tokens_decoder": {"3": {"content": "<x>", "special": True}},
}


@settings(FUZZ, max_examples=25)
@given(data=st.data())
def test_tokenizer_config_json(data, tokenizer_files):
    (tokenizer_files / "tokenizer_config.json").write_bytes(data.draw(of_json(TOKENIZER)))
    with refused(UserError):
        encoder = ChatEncoder(load_tokenizer(str(tokenizer_files)))
        try:
            encoder(read_chat(ROWS["completion"]))
        except ValueError as error:  # which `parse_rows` tells with the place of the row
            assert str(error)
