"""Texts that --data names: read, tokenized once, packed, mixed in an order that is a function of (seed, place)."""

import json
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from runtime.texts import WORDS, Letters, S, read, texts_of, write
from redco_runtime.base.messages import UserError, announce
from redco_runtime.nn.packed_rows import most_texts
from redco_runtime.data.prepare import build as building
from redco_runtime.data.prepare import formats
from redco_runtime.data.text import packing, text_examples
from redco_runtime.data.text import rows as shard_rows
from redco_runtime.data.text.prompts import rows_to_continue
from redco_runtime.data.text.text_examples import cut_texts
from redco_runtime.data.text.examples import Mixture


@pytest.mark.parametrize("way", ["on", "off"])
def test_rows_have_each_text_once_whole_or_cut(tmp_path, way):
    path = write(tmp_path / "a.jsonl", *WORDS, "", "x" * 40)
    train, held_out = read(tmp_path, path, packing=way)
    documents = [text.encode() + b"\1" for text in [*WORDS, "x" * 40]]
    pieces = [text[at : at + S] for text in documents for at in range(0, len(text), S)]
    assert texts_of(train, held_out) == sorted(pieces)
    assert len(held_out) and (len(train) + len(held_out) == len(pieces)) == (way == "off")
    assert train[0].keys() == {"input_ids", "segments" if way == "on" else "mask"}


def test_rows_without_a_token_are_counted(tmp_path, capsys):
    path = write(tmp_path / "a.jsonl", *WORDS, "", "a", "")
    announce.cache_clear()
    read(tmp_path, path)
    assert f"{len(WORDS) + 1:,} texts of" in (out := capsys.readouterr().out)
    assert "; 2 rows without a token left out" in out


def test_what_it_takes_in_is_said_with_the_share_of_padding(tmp_path, capsys):
    announce.cache_clear()
    read(tmp_path, write(tmp_path / "a.jsonl", *["abc"] * 24), packing="off")
    said = capsys.readouterr().out
    assert "24 texts of 96 tokens, padded to 24 rows of 16, " in said  # an end behind each
    assert " of them held out, 75.0% of them padding" in said


def test_no_rows_have_no_order():
    with pytest.raises(UserError, match="no training examples: see what examples"):
        Mixture([[]]).order(0, 0, 4)


def test_what_is_no_share_is_refused(tmp_path):
    path = write(tmp_path / "a.jsonl", *WORDS)
    for streaming in (False, True):
        with pytest.raises(
            UserError, match="--held-out: 1.5 is no share: give one from 0 to below"
        ):
            read(tmp_path, path, held_out=1.5, streaming=streaming)
    settings = SimpleNamespace(text_files=(), sequence_length=8, held_out=2.0)
    with pytest.raises(UserError, match="--held-out: 2.0 is no share"):
        cut_texts(settings, Letters(), WORDS, 99)


def test_ids_that_the_model_has_not_are_named_without_sources_too():
    settings = SimpleNamespace(text_files=(), sequence_length=4, held_out=0.5)
    with pytest.raises(UserError, match="it makes the id .* of the text, and the model has 2"):
        cut_texts(settings, Letters(), WORDS, 2)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_packing_leaves_little_room(size):
    lengths = 1 + np.random.default_rng(size).integers(0, size, 5000)
    order, ends = packing.best_fit(lengths, size)
    assert sorted(order) == [*range(5000)]
    rows = np.add.reduceat(lengths[order], [0, *ends[:-1]])
    assert rows.max() <= size and rows.sum() == lengths.sum()
    assert np.diff([0, *ends]).max() <= most_texts(size)
    assert 1 - rows.mean() / size < 0.02


def test_a_book_is_held_out_in_stretches():
    pieces = packing.cut(np.array([5000 * S + 1, 3]), S)
    chosen = packing.hold_out(pieces, 0.05, 0)
    assert 0.03 < chosen.mean() < 0.07
    turns = np.flatnonzero(np.diff(chosen.astype(int)))
    assert ((turns + 1)[turns < 4999] % packing.STRETCH == 0).all() and len(turns) > 20


@pytest.mark.parametrize("size", [7, 50, 10**6])
def test_parts_of_a_file_have_its_lines_once(tmp_path, monkeypatch, size):
    monkeypatch.setattr(formats, "RANGE", size)
    monkeypatch.setattr(formats, "BLOCK", 5)
    text = "".join(f"{'é' * (i % 9)}{i}\n" for i in range(60)) + "the end"
    (tmp_path / "a.txt").write_text(text)
    write(tmp_path / "a.jsonl", *WORDS)
    parts = formats.FORMATS["text"].split(str(tmp_path / "a.txt"))
    items = [[*formats.read_text(part)] for part in parts]
    assert "".join(item.text for part in items for item in part) == text
    assert [item.ends for part in items for item in part if item.ends is not None].count(True) == 1
    maker = text_examples.TextMaker(None, "text")
    parts = formats.FORMATS["json"].split(str(tmp_path / "a.jsonl"))
    assert [item.text for part in parts for item in formats.read_items(maker, part)] == WORDS


def test_a_mixture_has_its_shares_and_whole_epochs(tmp_path):
    a, b = (
        write(tmp_path / f"{name}.jsonl", *WORDS[: n * 20]) for name, n in (("a", 10), ("b", 3))
    )
    train, _ = read(tmp_path, f"{a}=3", f"{b}=1")
    first = len(train.parts[0])
    order = train.order(5, 0, 20_000)
    assert (order < first).sum() == 15_000  # exactly
    for rows, start in ((order[order < first], 0), (order[order >= first], first)):
        size = len(train.parts[start > 0])
        epochs = rows[: len(rows) // size * size].reshape(-1, size)
        assert (np.sort(epochs) == start + np.arange(size)).all()
        assert len(np.unique(epochs, axis=0)) == len(epochs)
    np.testing.assert_array_equal(train.order(5, 9_990, 10_020), order[9_990:10_020])
    assert (train.order(6, 0, 50) != order[:50]).any()
    passes, seen = train.passes(5, 0, 20_000), {}
    for index, number in zip(order.tolist(), passes.tolist(), strict=True):
        assert number == seen.get(index, 0)  # how often it was taken before
        seen[index] = number + 1
    train, _ = read(tmp_path, a, b)
    assert sorted(train.order(5, len(train), 2 * len(train))) == [*range(len(train))]


def test_a_source_is_tokenized_once_and_again_where_it_changes(tmp_path, monkeypatch):
    calls = []
    make = building.make_shards
    monkeypatch.setattr(
        building, "make_shards", lambda jobs, *own: calls.extend(jobs) or make(jobs, *own)
    )
    path = write(tmp_path / "a.jsonl", *WORDS)
    one = texts_of(*read(tmp_path, path))
    assert texts_of(*read(tmp_path, path)) == one and len(calls) == 1
    write(tmp_path / "a.jsonl", *WORDS, "new")
    assert texts_of(*read(tmp_path, path)) != one and len(calls) == 2
    os.utime(path)  # the same content, which nobody knows without reading all of it
    read(tmp_path, path)
    assert len(calls) == 3
    read(tmp_path, path, verify_data=True)
    os.utime(path)
    read(tmp_path, path)  # as of what was prepared by a former version, which read all bytes
    assert len(calls) == 4


def test_what_was_prepared_by_a_former_version_is_read(tmp_path, monkeypatch):
    """Its shards lie beside its index; so do those of another layout of the same tokens."""
    monkeypatch.setattr(formats, "RANGE", 500)
    monkeypatch.setattr(text_examples.TextMaker, "shard", 1000)
    path = write(tmp_path / "a.jsonl", *WORDS)
    one, fresh = read(tmp_path, path), read(tmp_path / "fresh", path, sequence_length=8)
    one, fresh = ([[*map(str, rows)] for rows in both] for both in (one, fresh))
    (index,) = (tmp_path / "tokens").glob("*/index-*")
    for file in index.parent.glob("*/*"):
        file.rename(index.parent / file.name)
    index.write_text(
        json.dumps({k: v for k, v in json.loads(index.read_text()).items() if k != "folder"})
    )
    monkeypatch.setattr(text_examples.TextMaker, "documents", None)
    for before, changes in ((one, {}), (fresh, {"sequence_length": 8})):
        assert [[*map(str, rows)] for rows in read(tmp_path, path, **changes)] == before
    assert len([*index.parent.glob("0*.tokens")]) > 2


def test_a_folder_has_few_files(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "RANGE", 100)
    monkeypatch.setattr(text_examples.TextMaker, "shard", 200)
    monkeypatch.setattr(shard_rows, "GROUP", 2)
    read(tmp_path, write(tmp_path / "a.jsonl", *WORDS))
    folders = [*(tmp_path / "tokens").glob("*/*-MB-*")]
    assert len(folders) > 4
    assert {len([*folder.iterdir()]) for folder in folders[:-1]} <= {6, 12}


def test_shards_are_larger_where_there_is_much(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "RANGE", 100)
    monkeypatch.setattr(text_examples.TextMaker, "shard", 200)
    monkeypatch.setattr(building, "SHARDS", 4)
    read(tmp_path, write(tmp_path / "a.jsonl", *WORDS))
    assert 4 <= len([*(tmp_path / "tokens").glob("*/*/*.tokens")]) <= 6


@pytest.mark.parametrize(
    "change", [{"held_out": 0.3}, {"held_out": 0.0}, {"packing": "off"}, {"sequence_length": 8}]
)
def test_other_rows_are_of_the_same_tokens(tmp_path, monkeypatch, change):
    path = write(tmp_path / "a.jsonl", *WORDS)
    fresh = [[*map(str, rows)] for rows in read(tmp_path / "fresh", path, **change)]
    before = read(tmp_path, path)
    monkeypatch.setattr(text_examples.TextMaker, "documents", None)
    assert [[*map(str, rows)] for rows in read(tmp_path, path, **change)] == fresh
    for rows, again in zip(before, read(tmp_path, path), strict=True):
        assert [*map(str, rows)] == [*map(str, again)]


def test_a_build_goes_on_where_it_was_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "RANGE", 500)
    monkeypatch.setattr(text_examples.TextMaker, "shard", 1000)
    path = write(tmp_path / "a.jsonl", *WORDS)
    made, make = [], building.make_shards

    def killed(jobs, *own):
        for job in jobs[: None if made else 2]:
            made.append(job.number)
            yield from make([job], *own)
        if len(made) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(building, "make_shards", killed)
    with pytest.raises(KeyboardInterrupt):
        read(tmp_path, path)
    train, held_out = read(tmp_path, path)
    assert made == [*range(len(made))] and len(made) > 3
    monkeypatch.undo()
    assert texts_of(train, held_out) == texts_of(*read(tmp_path / "again", path))


BAD = {
    "a line": ('{"text": ', "is not JSON: Expecting value, at character 9\n"),
    "a list": ("[1]", "is a list, and not an object with 'text'"),
    "a key": ('{"words": "a"}', "has no 'text', but words: --text-field names another"),
    "a type": ('{"text": 3}', "has the value 3 in 'text', and no text"),
    "half a pair": (
        '{"text": "\\ud800"}',
        "is not JSON: it has half a surrogate pair, which is no",
    ),
}


@pytest.mark.parametrize("line, message", BAD.values(), ids=BAD)
def test_a_bad_row_is_named_by_file_and_line(tmp_path, line, message):
    path = write(tmp_path / "a.jsonl", *WORDS[:7])
    with open(path, "a") as file:
        file.write(f"\n{line}\n" + json.dumps({"text": "last"}) + "\n")
    with pytest.raises(UserError) as error:
        read(tmp_path, path)
    text = str(error.value)
    assert f"--data: {path} has a bad row, and --skip-bad-rows is 0:" in text
    assert f"{path}, line 9 {message}" in text and text.endswith("with --skip-bad-rows.")
    assert not [*(tmp_path / "tokens").rglob("*.tokens*")]
    train, held_out = read(tmp_path, path, skip_bad_rows=1)
    assert b"last\1" in b"".join(texts_of(train, held_out))
    with pytest.raises(UserError, match="has a bad row, and --skip-bad-rows is 0:"):
        read(tmp_path, path)  # of what was made when it might


def test_what_is_no_text_is_one_bad_row_of_any_format(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    half = '{"text": "\\ud83d"}'
    (tmp_path / "a.jsonl").write_bytes(f'{{"text": "\\ud83d\\ude00"}}\n{half}\n'.encode())
    (tmp_path / "b.jsonl").write_bytes(b'{"text": "a"}\n{"text": "\xff"}\n')
    (tmp_path / "c.jsonl").write_bytes(b'{"text": "a"}\n{"text": "\xed\xa0\xbd"}\n')
    (tmp_path / "d.json").write_text(f'[{{"text": "a"}}, {half}]')
    bytes_ = arrow.array([b"a", b"\xff"])
    table = arrow.table({"text": arrow.Array.from_buffers(arrow.string(), 2, bytes_.buffers())})
    parquet.write_table(table, tmp_path / "e.parquet")
    pair = "it has half a surrogate pair, which is no character"
    for name, where in {
        "a.jsonl": f", line 2 is not JSON: {pair}",
        "b.jsonl": ", line 2 is not JSON: it is not UTF-8: convert or unpack it",
        "c.jsonl": ", line 2 is not JSON: it is not UTF-8: convert or unpack it",
        "d.json": f", item 2 is not JSON: {pair}",
        "e.parquet": ", row 2 is not UTF-8",
    }.items():
        path = str(tmp_path / name)
        with pytest.raises(UserError) as error:
            read(tmp_path, path)
        assert f"has a bad row, and --skip-bad-rows is 0:\n  {path}{where}\n" in str(error.value)


def test_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin.txt").write_bytes(b"good\nbad \xe9t\xe9\n")
    (tmp_path / "b.TSV").write_text("id\ttext\n1\ta\n")
    (tmp_path / "blank.jsonl").write_text("\n\n")
    path = write(tmp_path / "a.jsonl", "a")
    cases = {
        "empty.txt": "empty.txt is empty: leave it out",
        "b.TSV": "b.TSV is a table, which is not read: write its rows as JSONL",
        "none-*.txt": "none-*.txt: there is no such file",
        ".": "is a folder: name its files",
        "latin.txt": "latin.txt, line 2 is not UTF-8: convert or unpack the file",
        "blank.jsonl": "blank.jsonl has no text to train on",
    }
    for name, message in cases.items():
        with pytest.raises(UserError) as error:
            read(tmp_path, str(tmp_path / name))
        assert message in str(error.value) and str(error.value).startswith("--data: ")
    for data, message in {
        (f"{path}=0.5", path): "give a weight, =0.5, to all of them or to none",
        (f"{path}=0",): "give a weight above 0",
        (f"{path}=1", f"{path}=1e-6"): "a weight of 1e-06 is too small beside the others",
    }.items():
        with pytest.raises(UserError, match=message):
            read(tmp_path, *data)


def test_a_disk_that_is_full_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "a.jsonl", "abc")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(
        UserError, match="cannot write .*00000.lengths.npy: No space left.*another --token-folder"
    ):
        read(tmp_path, path)
    assert not [*(tmp_path / "tokens").rglob("*.tmp")]


def test_the_tokenizer_of_another_model_is_named(tmp_path):
    path = write(tmp_path / "a.jsonl", "abc")
    for _ in range(2):  # while it is made, and of what was made before
        with pytest.raises(
            UserError, match="--tokenizer: it makes the id 99 of .*a.jsonl, and the model has 99:"
        ):
            read(tmp_path, path, vocabulary=99)
        assert len(read(tmp_path, path, vocabulary=100)[0]) == 1


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "hf:a"])
def test_a_package_that_is_missing_is_named(tmp_path, monkeypatch, name):
    for module in ("pyarrow", "pyarrow.parquet", "datasets"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "a").with_suffix(".arrow").write_bytes(b"x")
    (tmp_path / "a").with_suffix(".parquet").write_bytes(b"x")
    path = name if name.startswith("hf:") else str(tmp_path / name)
    package = "datasets" if name.startswith("hf:") else "pyarrow"
    with pytest.raises(UserError) as error:
        read(tmp_path, path)
    assert str(error.value) == f"--data: {path}: to read it, pip install {package}"


def test_tables_are_read_by_rows(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"text": WORDS, "n": range(len(WORDS))})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=30)
    for name, create in (("file", arrow.ipc.new_file), ("stream", arrow.ipc.new_stream)):
        with create(str(tmp_path / f"{name}.arrow"), table.schema) as file:
            file.write_table(table, max_chunksize=17)
    expected = texts_of(*read(tmp_path, write(tmp_path / "a.jsonl", *WORDS)))
    for name in ("a.parquet", "file.arrow", "stream.arrow"):
        path = str(tmp_path / name)
        assert texts_of(*read(tmp_path, path)) == expected
        with pytest.raises(UserError, match="has int64 in its column 'n', and no text"):
            read(tmp_path, path, text_field="n")
    with_null = arrow.table({"text": [*WORDS[:40], None, *WORDS[40:]]})
    parquet.write_table(with_null, tmp_path / "b.parquet", row_group_size=30)
    with pytest.raises(UserError, match="b.parquet, row 41 has null in 'text', and no text"):
        read(tmp_path, str(tmp_path / "b.parquet"))


def test_an_empty_prompt_is_refused():
    def tokenizer(text, add_special_tokens):
        return {"input_ids": [len(word) for word in text.split()] + [9] * add_special_tokens}

    first, second = rows_to_continue(tokenizer, ["to be", "or not to be"], 3)
    assert first["input_ids"].tolist() == [2, 2, 0] and second["input_ids"].tolist() == [3, 2, 2]
    with pytest.raises(UserError, match="an empty prompt cannot be continued"):
        rows_to_continue(tokenizer, ["to be", " "], 3)
