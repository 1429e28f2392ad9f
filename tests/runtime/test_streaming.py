"""Sources that are tokenized as they are read: the same rows wherever a run starts, by whatever number of processes."""

import json
import sys
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
from runtime.texts import WORDS, Letters, read, texts_of, write

from redco_runtime.base.messages import UserError, announce
from redco_runtime.data.prepare import tables, windows
from redco_runtime.data.text import streaming, weighted

BATCH, STEPS = 8, 30  # more than an epoch


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(streaming, "ROWS", 16)
    monkeypatch.setattr(streaming, "LEAST", 1)


def batches(examples, step=0, position=None, places=range(BATCH), size=BATCH):
    """(position, ids) of each batch from a step on, of some places of it."""
    examples.begin(4, size, position)
    for now in range(step, STEPS):
        rows = examples.take(now, places)
        yield json.loads(json.dumps(examples.position)), [r["input_ids"].tolist() for r in rows]


class Rows:
    """A data set that is read as it comes."""

    def __init__(self, first=0):
        self.first = first

    def skip(self, count):
        return Rows(self.first + count)

    def __iter__(self):
        return ({"text": text} for text in WORDS[self.first :])


@pytest.fixture(params=["one", "two", "weighted", "datasets", "both", "array"])
def stream(request, tmp_path, monkeypatch):
    """Make the training rows anew, as another process has them."""
    a, b = (
        write(tmp_path / f"{name}.jsonl", *WORDS[part])
        for name, part in (("a", slice(150)), ("b", slice(150, None)))
    )
    (tmp_path / "c.json").write_text(json.dumps([{"text": text} for text in WORDS]))
    sources = {"one": [a], "two": [a, b], "weighted": [f"{a}=3", f"{b}=1"], "datasets": ["hf:x"]}
    sources |= {"both": ["hf:x", a], "array": [str(tmp_path / "c.json")]}
    loaded = SimpleNamespace(load_dataset=lambda path, split, streaming: Rows())
    monkeypatch.setitem(sys.modules, "datasets", loaded)
    monkeypatch.setattr(windows, "_READING", SimpleNamespace())

    def make():
        tables._dataset.cache_clear()
        windows.SIZES.clear()  # which another process does not know
        return read(tmp_path, *sources[request.param], streaming=True)[0]

    yield make
    tables._dataset.cache_clear()
    assert not (tmp_path / "tokens").exists()


def test_a_run_goes_on_where_it_was_stopped(stream):
    straight = [*batches(stream())]
    for step in (1, 2, 7, 20):
        position, _ = straight[step - 1]
        assert [*batches(stream(), step, position)] == straight[step:]
    assert straight[0][1] != straight[20][1]


def test_a_process_makes_the_rows_that_it_trains_on(stream, monkeypatch):
    seen, encode = list[str](), Letters.__call__
    monkeypatch.setattr(Letters, "__call__", lambda s, t, **k: seen.extend(t) or encode(s, t, **k))

    def run(places):
        """Return where some places are after each step, their rows, and how many texts were tokenized for it."""
        rows = stream()
        seen.clear()  # what is held out, which all make
        every = [*batches(rows, places=places)]
        return [at for at, _ in every], [ids for _, ids in every], len(seen)

    at, rows, texts = run(range(BATCH))
    for processes in (2, 4, 8):
        own = BATCH // processes
        parts = [run(range(first, first + own)) for first in range(0, BATCH, own)]
        assert [sum(both, []) for both in zip(*(part[0] for part in parts), strict=True)] == at
        assert [sum(both, []) for both in zip(*(part[1] for part in parts), strict=True)] == rows
        assert max(part[2] for part in parts) < 1.5 * texts / processes
        assert sum(part[2] for part in parts) < 1.2 * texts


def test_what_was_read_before_is_not_read_again(tmp_path, monkeypatch):
    path = write(tmp_path / "a.jsonl", *WORDS)
    position, _ = [*islice(batches(read(tmp_path, path, streaming=True)[0]), 14)][-1]
    rows, seen = read(tmp_path, path, streaming=True)[0], []
    encode = Letters.__call__
    monkeypatch.setattr(Letters, "__call__", lambda s, t, **k: seen.extend(t) or encode(s, t, **k))
    next(batches(rows, 14, position))
    assert 0 < len(seen) < 0.75 * len(WORDS)  # some are read ahead


def test_an_epoch_has_each_text_once_or_it_is_held_out(tmp_path, capsys):
    path = write(tmp_path / "a.jsonl", *WORDS)
    rows, held_out = read(tmp_path, path, streaming=True)
    whole = texts_of(*read(tmp_path, path))
    assert texts_of(rows, held_out) == whole and 0 < len(held_out) < 20
    epoch = [*rows]
    rows.begin(0, 1, None)
    assert texts_of([rows.take(step, [0])[0] for step in range(len(epoch))]) == texts_of(epoch)
    announce.cache_clear()
    assert read(tmp_path, path, streaming=True, held_out_data=(path,), held_out=0.0)[1][0]
    assert f"--held-out-data: {path} is trained on too" in capsys.readouterr().out


def test_shares_are_exact(tmp_path):
    a, b = write(tmp_path / "a.jsonl", "a" * 15), write(tmp_path / "b.jsonl", "b" * 15)
    rows, _ = read(tmp_path, f"{a}=3", f"{b}=1", streaming=True, held_out=0.0)
    first = ["ab".index(chr(ids[0])) for _, batch in batches(rows) for ids in batch]
    numbers = [weighted.source_at(weighted.block_ends([3, 1]), 4, place) for place in range(10_000)]
    assert first == numbers[: len(first)] and np.mean(numbers) == 0.25


def test_what_cannot_be_streamed_is_named(tmp_path):
    path = write(tmp_path / "a.jsonl", *WORDS[:7])
    with open(path, "a") as file:
        file.write("not JSON\n")
    with pytest.raises(UserError, match="has a bad row(.|\n)*a.jsonl, line 8 is not JSON"):
        [*read(tmp_path, path, streaming=True)[0]]
    assert [*read(tmp_path, path, streaming=True, skip_bad_rows=1)[0]]
    (tmp_path / "b.jsonl").write_text("\n")
    with pytest.raises(UserError, match="b.jsonl has no text to train on: it is empty"):
        read(tmp_path, str(tmp_path / "b.jsonl"), streaming=True)
    with pytest.raises(UserError, match="--tokenizer: it makes the id 98 of"):
        read(tmp_path, write(tmp_path / "a.jsonl", "ab"), streaming=True, vocabulary=98)


@pytest.mark.parametrize("position", [[], [[place, 0, place, 0] for place in range(4)]])
def test_a_position_of_another_batch_is_refused(tmp_path, position):
    rows, _ = read(tmp_path, write(tmp_path / "a.jsonl", *WORDS), streaming=True)
    with pytest.raises(UserError, match="another --batch-size"):
        rows.begin(0, BATCH, position)


@pytest.mark.parametrize("weights", [[1, 1, 1], [3, 1], [0.7, 0.2, 0.1], [1]])
def test_a_block_is_full_whatever_the_weights(weights):
    assert weighted.block_ends(weights)[-1] == weighted.BLOCK
