"""Sources that are tokenized as they are read: the same rows wherever a run starts."""

import json
import sys
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
from runtime.texts import WORDS, Letters, read, texts_of, write

from redco_runtime.base.errors import UserError
from redco_runtime.base.output import announce
from redco_runtime.data.iterators import Stream
from redco_runtime.data.prepare import formats, tables
from redco_runtime.data.text import mixture, streaming

BATCH, STEPS = 3, 40  # more than an epoch


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(formats, "RANGE", 500)
    monkeypatch.setattr(streaming, "WINDOW", 5)


def batches(examples, step=0, position=None):
    """(position, ids) of each batch from a step on."""
    stream = Stream(examples, 4, BATCH, step, position)
    for _ in range(step, STEPS):
        position = json.loads(json.dumps(stream.position))
        yield position, [row["input_ids"].tolist() for row in stream.take()]


@pytest.fixture(params=["one", "two", "weighted", "datasets"])
def stream(request, tmp_path, monkeypatch):
    """Make the training rows anew, as another process has them, and the held-out ones."""
    a, b = (
        write(tmp_path / f"{name}.jsonl", *WORDS[part])
        for name, part in (("a", slice(150)), ("b", slice(150, None)))
    )
    sources = {"one": [a], "two": [a, b], "weighted": [f"{a}=3", f"{b}=1"], "datasets": ["hf:x"]}

    class Rows:
        def __init__(self, first=0):
            self.first = first

        def skip(self, count):
            return Rows(self.first + count)

        def __iter__(self):
            return ({"text": text} for text in WORDS[self.first :])

    loaded = SimpleNamespace(load_dataset=lambda path, split, streaming: Rows())
    monkeypatch.setitem(sys.modules, "datasets", loaded)
    monkeypatch.setattr(tables, "ROWS", 16)
    tables._dataset.cache_clear()
    yield lambda: read(tmp_path, *sources[request.param], streaming=True)
    tables._dataset.cache_clear()
    assert not (tmp_path / "tokens").exists()


def test_a_run_goes_on_where_it_was_stopped(stream):
    straight = [*batches(stream()[0])]
    for step in (1, 2, 7, 20, 33):
        position, _ = straight[step]
        assert [*batches(stream()[0], step, position)] == straight[step:]
        tables._SIZES.clear()  # which another process does not know
    assert straight[0][1] != straight[20][1]
    assert [ids for _, ids in batches(stream()[0], 7)] == [ids for _, ids in straight[7:]]


def test_what_was_read_before_is_not_read_again(tmp_path, monkeypatch):
    path = write(tmp_path / "a.jsonl", *WORDS)
    position, expected = [*islice(batches(read(tmp_path, path, streaming=True)[0]), 14)][-1]
    rows, seen = read(tmp_path, path, streaming=True)[0], []
    encode = Letters.__call__
    monkeypatch.setattr(Letters, "__call__", lambda s, t, **k: seen.extend(t) or encode(s, t, **k))
    _, batch = next(batches(rows, 13, position))
    assert batch == expected and 0 < len(seen) < len(WORDS) // 2


def test_an_epoch_has_each_text_once_or_it_is_held_out(tmp_path, capsys):
    path = write(tmp_path / "a.jsonl", *WORDS)
    rows, held_out = read(tmp_path, path, streaming=True)
    whole = texts_of(*read(tmp_path, path))
    assert texts_of(rows, held_out) == whole and len(held_out) == 1
    rows.begin_epoch(4, 1)
    assert texts_of(rows, held_out) == whole
    announce.cache_clear()
    assert read(tmp_path, path, streaming=True, held_out_data=(path,), held_out=0.0)[1][0]
    assert f"--held-out-data: {path} is trained on too" in capsys.readouterr().out


def test_shares_are_exact(tmp_path):
    a, b = write(tmp_path / "a.jsonl", "a" * 15), write(tmp_path / "b.jsonl", "b" * 15)
    rows, _ = read(tmp_path, f"{a}=3", f"{b}=1", streaming=True, held_out=0.0)
    first = ["ab".index(chr(row["input_ids"][0])) for row in islice(rows, 12)]
    numbers = [mixture.source_at(mixture.block_ends([3, 1]), 0, place) for place in range(10_000)]
    assert first == numbers[:12] and np.mean(numbers) == 0.25


def test_what_cannot_be_streamed_is_named(tmp_path):
    path = write(tmp_path / "a.jsonl", *WORDS[:7])
    with open(path, "a") as file:
        file.write("not JSON\n")
    with pytest.raises(UserError, match="has a bad row(.|\n)*a.jsonl, line 8 is not JSON"):
        read(tmp_path, path, streaming=True)
    assert read(tmp_path, path, streaming=True, skip_bad_rows=1)[1]
    (tmp_path / "b.jsonl").write_text("\n")
    with pytest.raises(UserError, match="b.jsonl has no text to train on: it is empty"):
        read(tmp_path, str(tmp_path / "b.jsonl"), streaming=True)
    with pytest.raises(UserError, match="--tokenizer: it makes the id 98 of"):
        read(tmp_path, write(tmp_path / "a.jsonl", "ab"), streaming=True, vocabulary=98)


@pytest.mark.parametrize("weights", [[1, 1, 1], [3, 1], [0.7, 0.2, 0.1], [1]])
def test_a_block_is_full_whatever_the_weights(weights):
    assert mixture.block_ends(weights)[-1] == mixture.BLOCK
