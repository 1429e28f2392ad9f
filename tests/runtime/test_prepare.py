"""The process that reads data: what it makes is what this one makes, and however it ends is one line."""

import os
import subprocess
import sys
from dataclasses import asdict
from itertools import islice
from types import SimpleNamespace

import pytest
from runtime.texts import WORDS, S, texts_of, write

from redco_runtime.base.errors import UserError
from redco_runtime.data.prepare import formats, worker
from redco_runtime.data.prepare.build import shards_of
from redco_runtime.data.prepare.shard import Job
from redco_runtime.data.text import request, streaming
from redco_runtime.data.text.encoder import make_encoder
from redco_runtime.data.text.examples import text_examples
from redco_runtime.data.text.sources import parse_sources
from redco_runtime.data.text.texts import TextMaker
from redco_runtime.data.tokenizer import load_tokenizer


@pytest.fixture(scope="module")
def maker():
    return TextMaker(make_encoder(load_tokenizer("bytes")), "text")


@pytest.fixture
def started(monkeypatch):
    """The makers that processes are started with."""
    lines, start = [], request.start
    monkeypatch.setattr(request, "start", lambda line: lines.append(line) or start(line))
    return lines


def examples(folder, *data, **changes):
    """The rows of texts whose tokens are bytes."""
    settings = {"data": data, "held_out_data": (), "held_out": 0.1, "text_field": "text"}
    settings |= {"packing": "on", "skip_bad_rows": 0, "streaming": False, "sequence_length": S}
    settings |= {"token_folder": str(folder)} | changes
    return text_examples(SimpleNamespace(**settings), load_tokenizer("bytes"), 300)


def files_in(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*/0*")}


def test_it_makes_what_this_process_makes(tmp_path, monkeypatch, started):
    path = write(tmp_path / "a.jsonl", *WORDS)
    there = texts_of(*examples(tmp_path / "there", path))
    assert len(started) == 1
    assert there == texts_of(*examples(tmp_path / "there", path)) and len(started) == 1
    monkeypatch.setattr(TextMaker, "portable", False)
    assert texts_of(*examples(tmp_path / "here", path)) == there and len(started) == 1
    assert files_in(tmp_path / "here") == files_in(tmp_path / "there")


def test_it_makes_the_same_windows_from_any_on(tmp_path, monkeypatch, started):
    monkeypatch.setattr(streaming, "WINDOW", 5)
    path = write(tmp_path / "a.jsonl", *WORDS)
    there, _ = examples(tmp_path, path, streaming=True)
    windows = [*there.windows()]
    at = windows[3]
    (again,) = islice(there.windows(at.number, at.part, at.documents), 1)
    assert len(started) == 3 and len(windows) > 4
    monkeypatch.setattr(TextMaker, "portable", False)
    for one, other in ((at, again), *zip(windows, there.windows(), strict=True)):
        assert one[:3] == other[:3] and texts_of(one.rows) == texts_of(other.rows)
    assert len(started) == 3


def test_workers_make_the_same_shards(tmp_path, monkeypatch, maker):
    monkeypatch.setattr(formats, "RANGE", 500)
    (source,) = parse_sources("--data", [write(tmp_path / "a.jsonl", *WORDS)])
    made = []
    for folder, line in (("there", request.dump_maker(maker, tmp_path)), ("here", "")):
        (tmp_path / folder / "x").mkdir(parents=True)
        parts = enumerate(shards_of(source, 1000))
        jobs = [Job(str(tmp_path / folder / "x"), n, own, S, "on", 0.1, 0) for n, own in parts]
        contents = {job.number: asdict(x) for job, x in worker.make_shards(jobs, maker, line)}
        made.append((contents, files_in(tmp_path / folder)))
    assert made[0] == made[1] and len(made[0][0]) > 3


def test_a_worker_that_is_killed_is_said(tmp_path, monkeypatch, maker):
    monkeypatch.setattr(formats, "RANGE", 500)
    (source,) = parse_sources("--data", [write(tmp_path / "a.jsonl", *WORDS)])
    parts = enumerate(shards_of(source, 1000))
    jobs = [Job(str(tmp_path), n, own, S, "on", 0.1, 0) for n, own in parts]
    workers = []

    def start(*args, **variables):
        workers.append(request.start(*args, **variables))
        workers[0].kill()
        return workers[-1]

    monkeypatch.setattr(worker, "start", start)
    with pytest.raises(UserError, match="has ended with -9"):
        [*worker.make_shards(jobs, maker, request.dump_maker(maker, tmp_path))]
    assert len(workers) > 1 and all(one.returncode == -9 for one in workers)


def test_what_it_refuses_is_refused(tmp_path):
    path = write(tmp_path / "a.jsonl", *WORDS)
    with open(path, "a") as file:
        file.write('{"text": 3}\n')
    for streaming_ in (False, True):
        with pytest.raises(UserError, match=r"line 201 has the value 3 in 'text', and no text"):
            [*examples(tmp_path / "tokens", path, streaming=streaming_)[0]]


def test_where_it_ends_before_it_is_done_is_said(tmp_path, monkeypatch):
    start = request.start

    def killed(line):
        process = start(line)
        process.kill()
        return process

    monkeypatch.setattr(request, "start", killed)
    path = write(tmp_path / "a.jsonl", *WORDS)
    with pytest.raises(UserError, match="^the process that reads --data has ended with -9: see ab"):
        examples(tmp_path, path)


def test_it_ends_with_the_one_that_asks(tmp_path, maker):
    """One whose answers nobody reads, and one that is asked for nothing."""
    path = write(tmp_path / "a.jsonl", *WORDS * 50)
    (source,) = parse_sources("--data", [path])
    facts = {"sources": [asdict(source)], "size": 10**5, "number": 0, "part": 0, "documents": 0}
    facts["shape"] = {"sequence_length": S, "packing": "on", "skip_bad_rows": 0, "held_out": 0.0}
    for busy, code in ((True, 1), (False, 0)):
        with request.start(request.dump_maker(maker, tmp_path)) as process:
            if busy:
                first = next(request.exchange(process, "windows", facts))
                assert first["number"] == 0
            process.stdout.close()
            process.stdin.close()
            assert process.wait(20) == code


def test_no_jax_is_imported():
    modules = ["prepare.program", "chats.pairs", "labels.documents", "pairs.documents"]
    names = ", ".join(f"redco_runtime.data.{name}" for name in modules)
    code = f"import sys, {names}; print('jax' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
