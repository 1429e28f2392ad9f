"""The process that reads data: what it makes is what this one makes, and however it ends is one line."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import islice
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest
from runtime.texts import WORDS, S, texts_of, write

from redco_runtime.base.messages import UserError
from redco_runtime.data.prepare import build, formats, shard
from redco_runtime.data.prepare.shard import Job
from redco_runtime.data.text import sources, streaming
from redco_runtime.data.text.documents import Bad, Contents, Shape
from redco_runtime.data.tokenizer import id_dtype, load_tokenizer, make_encoder
from redco_runtime.data.text.text_examples import TextMaker, text_examples
from redco_runtime.data.text.rows import open_rows
from redco_runtime.data.text.sources import parse_sources

SMALL = """
import os
from redco_runtime.data.prepare import formats, shard
from redco_runtime.data.text.text_examples import TextMaker
formats.RANGE, TextMaker.shard = 500, 1000
tokenize = shard._tokenize
def logged(job, maker):
    with open(os.environ["MADE"], "a") as log:
        log.write(f"{job.number}\\n")
    return tokenize(job, maker)
shard._tokenize = logged
"""


@pytest.fixture(scope="module")
def maker():
    return TextMaker(make_encoder(load_tokenizer("bytes")), "text")


@pytest.fixture
def started(monkeypatch):
    """The makers that processes are started with."""
    makers, start = [], sources.Reader
    monkeypatch.setattr(sources, "Reader", lambda maker: makers.append(maker) or start(maker))
    return makers


def examples(folder, *data, **changes):
    """The rows of texts whose tokens are bytes."""
    settings = {"data": data, "held_out_data": (), "held_out": 0.1, "text_field": "text"}
    settings |= {"packing": "on", "skip_bad_rows": 0, "streaming": False, "sequence_length": S}
    settings |= {"token_folder": str(folder)} | changes
    return text_examples(SimpleNamespace(**settings), load_tokenizer("bytes"), 300)


def files_in(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*/*/0*")}


def test_it_makes_what_this_process_makes(tmp_path, monkeypatch, started):
    path = write(tmp_path / "a.jsonl", *WORDS)
    there = texts_of(*examples(tmp_path / "there", path))
    assert len(started) == 1
    assert there == texts_of(*examples(tmp_path / "there", path)) and len(started) == 1
    monkeypatch.setattr(TextMaker, "portable", False)
    assert texts_of(*examples(tmp_path / "here", path)) == there and len(started) == 1
    assert files_in(tmp_path / "here") == files_in(tmp_path / "there")


def test_it_makes_the_same_windows_from_any_on(tmp_path, monkeypatch, started):
    monkeypatch.setattr(streaming, "LEAST", 1)
    path = write(tmp_path / "a.jsonl", *WORDS)
    (group,) = examples(tmp_path, path, streaming=True)[0].groups
    windows = [*islice(group.windows(2048, {0: (0, 0)}), 9)]
    (again,) = islice(group.windows(2048, {0: windows[3][1:3]}), 1)
    assert len(started) == 3
    monkeypatch.setattr(TextMaker, "portable", False)
    here = group.windows(2048, {0: (0, 0)})
    for one, other in ((windows[3], again), *zip(windows, here, strict=False)):
        assert one[:4] == other[:4] and texts_of(one.rows) == texts_of(other.rows)
    assert len(started) == 3


def test_workers_make_the_same_shards(tmp_path, monkeypatch, maker):
    monkeypatch.setattr(formats, "RANGE", 500)
    (source,) = parse_sources("--data", [write(tmp_path / "a.jsonl", *WORDS)])
    made = []
    for folder in ("there", "here"):
        (tmp_path / folder / "x").mkdir(parents=True)
        parts = enumerate(build.shards_of(formats.parts_of(source), 1000))
        jobs = [
            Job(tmp_path, tmp_path / folder / "x", n, own, Shape(S, "on", 0.1)) for n, own in parts
        ]
        monkeypatch.setattr(TextMaker, "portable", folder == "there")
        with open(tmp_path / "lock", "ab") as lock:
            shards = build.make_shards(jobs, maker, build.Claims(lock))
            contents = {job.number: asdict(x) for job, x in shards}
        made.append((contents, files_in(tmp_path / folder)))
    assert made[0] == made[1] and len(made[0][0]) > 3


@pytest.mark.parametrize("count", [1, 4])
def test_processes_share_the_shards_out(tmp_path, monkeypatch, maker, count):
    monkeypatch.setattr(formats, "RANGE", 500)
    file = write(tmp_path / "a.jsonl", *WORDS * 4)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("MADE", str(tmp_path / "made"))
    (tmp_path / "sitecustomize.py").write_text(SMALL)
    (source,) = parse_sources("--data", [file])
    path = tmp_path / "tokens" / "x" / "index.json"
    facts = {"source": source, "path": path, "vocabulary": 300, "shape": Shape(S, "on", 0.1)}

    def make(index):
        with sources.Reader(maker) as reader:
            return [*reader.ask("build", **facts, folder=str(tmp_path), place=(index, count))]

    with ThreadPoolExecutor(count) as pool:
        assert all(pool.map(make, range(count)))
    shards = len(json.loads(path.read_text())["rows"])
    assert sorted(map(int, (tmp_path / "made").read_text().split())) == [*range(shards)]
    assert shards > 12
    rows = open_rows(path)
    assert [str(rows[i]) for i in range(len(rows))] == [
        *map(str, one_process(tmp_path, source, maker))
    ]


def one_process(folder, source, maker):
    """The rows that one makes of shards of that size."""
    path = folder / "alone" / "x" / "index.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TextMaker, "portable", False)
        patch.setattr(TextMaker, "shard", 1000)
        [*build.build(maker, source, path, 300, Shape(S, "on", 0.1), str(folder))]
    return open_rows(path)


def test_what_a_killed_process_had_is_made_by_another(tmp_path, maker):
    (source,) = parse_sources("--data", [write(tmp_path / "a.jsonl", *WORDS)])
    path = tmp_path / "tokens" / "x" / "index.json"
    path.parent.mkdir(parents=True)
    code = f"import fcntl; f = open('{path.parent}/lock', 'ab'); fcntl.lockf(f, 2, 1, 1); print('has', flush=True); input()"
    other = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True)
    assert other.stdout.readline() == "has\n"
    answers = build.build(maker, source, path, 300, Shape(S, "on", 0.1), str(tmp_path))
    assert next(answers)["at"] == "the tokens of its data, which another process makes"
    assert not path.exists()
    other.kill()
    assert [*answers][-1] == {"at": "the tokens of its data"} and path.exists()
    other.communicate()


def test_a_worker_that_is_killed_is_said(tmp_path, monkeypatch, maker):
    monkeypatch.setattr(formats, "RANGE", 500)
    (source,) = parse_sources("--data", [write(tmp_path / "a.jsonl", *WORDS)])
    parts = enumerate(build.shards_of(formats.parts_of(source), 1000))
    jobs = [Job(tmp_path, tmp_path, n, own, Shape(S, "on", 0.1)) for n, own in parts]
    workers = []

    def start(*args, **variables):
        workers.append(sources.Reader(*args, **variables))
        workers[0].process.kill()
        return workers[-1]

    monkeypatch.setattr(build, "Reader", start)
    with open(tmp_path / "lock", "ab") as lock:
        with pytest.raises(UserError, match="has ended with -9"):
            [*build.make_shards(jobs, maker, build.Claims(lock))]
    assert len(workers) > 1 and all(one.process.returncode == -9 for one in workers)


def test_what_it_refuses_is_refused(tmp_path):
    path = write(tmp_path / "a.jsonl", *WORDS)
    with open(path, "a") as file:
        file.write('{"text": 3}\n')
    for streaming_ in (False, True):
        with pytest.raises(UserError, match=r"line 201 has the value 3 in 'text', and no text"):
            [*examples(tmp_path / "tokens", path, streaming=streaming_)[0]]


def test_where_it_ends_before_it_is_done_is_said(tmp_path, monkeypatch):
    start = sources.Reader

    def killed(maker):
        reader = start(maker)
        reader.process.kill()
        return reader

    monkeypatch.setattr(sources, "Reader", killed)
    path = write(tmp_path / "a.jsonl", *WORDS)
    with pytest.raises(
        UserError, match="^the process that reads --data has ended with -9: a lack of"
    ):
        examples(tmp_path, path)


def test_it_ends_with_the_one_that_asks(tmp_path, maker):
    """One whose answers nobody reads, and one that is asked for nothing."""
    path = write(tmp_path / "a.jsonl", *WORDS * 50)
    (source,) = parse_sources("--data", [path])
    facts = {"sources": [source], "shape": Shape(S, "on", 0.0), "rows": 10, "batch": 1}
    facts["places"] = {0: (0, 0)}
    for busy in (True, False):
        with sources.Reader(maker) as reader:
            if busy:
                windows = reader.ask(f"{sources.RUNTIME}.data.prepare.windows", **facts)
                assert next(windows)["number"] == 0
            reader.pipe.close()
            assert reader.process.wait(20) == 0


def test_no_jax_is_imported():
    modules = [
        "prepare.program",
        "prepare.windows",
        "prepare.tables",
        "chats.pairs",
        "labels.documents",
        "pairs.documents",
    ]
    names = ", ".join(f"redco_runtime.data.{name}" for name in modules)
    code = f"import sys, {names}; print('jax' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_an_answer_that_is_cut_short_is_said(maker):
    with sources.Reader(maker) as reader:
        reader.process.kill()
        reader.pipe, theirs = Pipe()
        os.write(theirs.fileno(), (100).to_bytes(4) + b"less")
        theirs.close()
        with pytest.raises(UserError, match="has ended with -9: a lack of memory"):
            [*reader.ask("shard")]


def test_ids_of_more_words_than_16_bits_have_take_32():
    assert (id_dtype(range(2**16)), id_dtype(range(2**16 + 1))) == ("uint16", "uint32")


@pytest.mark.parametrize("count", [0, 1, 5, 12])
def test_each_shard_is_made_first_by_one_process(monkeypatch, tmp_path, count):
    """However many there are: together they begin with all, each with its own."""
    jobs = [SimpleNamespace(folder=tmp_path, number=i) for i in range(count)]
    monkeypatch.setattr(build, "_jobs", lambda *_: jobs)
    for processes in (1, 2, 3, 7):
        first, bars = [], []

        def make(own, alone=False, first=first, bars=bars, shown=False):
            first.extend(job.number for job in own)
            bars.append((alone, shown))
            yield

        for place in range(processes):
            task = SimpleNamespace(maker=None, source=None, make=make)
            next(build._Task.make_all(task, tmp_path / "index", None, (place, processes)))
        assert first == [*range(count)]
        assert bars == [(processes == 1, True), *[(False, False)] * (processes - 1)]


@pytest.mark.parametrize(("bad", "named", "more"), [(9, 9, 0), (10, 10, 0), (12, 10, 2)])
def test_the_first_of_bad_rows_are_named_and_the_others_counted(monkeypatch, bad, named, more):
    rows = [*(Bad(None, number, f"is bad {number}") for number in range(bad)), "a document"]
    monkeypatch.setattr(shard, "read_documents", lambda maker, parts: rows)
    monkeypatch.setattr(shard, "describe", lambda row: row.why)
    contents = Contents()
    assert [*shard._documents(SimpleNamespace(parts=[]), None, contents)] == ["a document"]
    assert contents.bad == [f"is bad {number}" for number in range(named)]
    assert contents.more_bad == more and contents.bad_rows == bad
