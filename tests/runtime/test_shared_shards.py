"""Shards in a bucket: a host makes those that no other has taken, and sends them."""

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from redco_runtime.data.prepare import build, shared_shards
from redco_runtime.data.prepare.shard import Job
from redco_runtime.data.text.documents import Contents


class Sent:
    """A folder that others send shards to, on this machine."""

    def __init__(self, path):
        self.path = path

    def __truediv__(self, name):
        return self.path / name

    def bring(self, folder, names):
        for name in names:
            (folder / name).write_bytes((self.path / name).read_bytes())
            yield


def test_the_shards_that_came_are_those_of_which_all_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(shared_shards, "PATIENCE", 0)
    monkeypatch.setattr(shared_shards, "LONG_LOOK", 0)
    there, here = (tmp_path / name for name in ("there", "here"))
    there.mkdir(), here.mkdir()
    shape = SimpleNamespace(layout="L")
    jobs = [Job(here, here, number, [], shape) for number in (0, 1)]
    shared = shared_shards.Shared(Sent(there), SimpleNamespace(marks={}))
    for name in shared._names(jobs[0]):
        (there / name).write_text(json.dumps({"documents": 3}))
    said, receive = [], shared.receive(jobs, 0, "words")
    with pytest.raises(StopIteration) as end:
        while True:
            said.append(next(receive).get("say"))
    assert {number: one.documents for number, one in end.value.value.items()} == {0: 3}
    assert [x for x in said if x] == [
        "data: 1 of the shards of words did not come from other hosts within 0 s: they are made here"
    ]


class Bucket(type(Path())):
    """A folder of a bucket, on this machine."""

    def create(self, content):
        self.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(self, "xb") as file:
                file.write(content)
        except FileExistsError:
            return False
        return True

    @property
    def store(self):
        def modified(name):
            return datetime.fromtimestamp(Path(name).stat().st_mtime)

        return SimpleNamespace(modified=modified)

    def fill(self, folder, names):
        self.mkdir(parents=True, exist_ok=True)
        for name in names:
            (self / name).write_bytes((Path(folder) / name).read_bytes())


@pytest.fixture
def shared(tmp_path):
    """(what is shared of a source, a job whose shard is here)."""
    shape = SimpleNamespace(layout="L", skip_bad_rows=1)
    job = Job(tmp_path, tmp_path, 0, [SimpleNamespace(size=5)], shape)
    shared = shared_shards.Shared(Bucket(tmp_path / "there"), SimpleNamespace(marks={}))
    for name in shared._names(job):
        (tmp_path / name).write_text(json.dumps({"documents": 3}))
    return shared, job


def test_a_shard_is_made_by_the_host_that_takes_it_first(shared, monkeypatch):
    own, job = shared
    assert own.take(job) and own.take(job)  # its own claim is its own
    monkeypatch.setattr("socket.gethostname", lambda: "other")
    assert not own.take(job)
    monkeypatch.setattr(shared_shards, "PATIENCE", -1)  # the first is gone
    assert own.take(job)
    own.send(job, Contents(documents=3))
    assert not own._claim(job).exists()
    assert not own.take(job) and not own._claim(job).exists()  # it is there


@pytest.mark.parametrize(("bad", "there"), [(1, True), (2, False)])
def test_a_shard_of_too_many_bad_rows_is_sent_to_nobody(shared, bad, there):
    own, job = shared
    own.take(job)
    own.send(job, Contents(more_bad=bad))
    assert (own.there / own._names(job)[-1]).exists() is there
    assert own._claim(job).exists() is not there


def test_what_is_here_and_what_is_made_is_sent(shared, monkeypatch, capsys):
    own, job = shared
    jobs = [job, replace(job, number=1), replace(job, number=2)]
    made = [(jobs[1], Contents(highest=3, more_bad=2, bad=["a row is none"])), (jobs[2], None)]
    monkeypatch.setattr(build, "make_shards", lambda left, *_: iter(made))
    sent = []
    bucket = SimpleNamespace(send=lambda job, one: sent.append((job.number, one.documents)))
    source = SimpleNamespace(name="words", flag="--data")
    task = build._Task(None, source, 10, None, bucket)
    making, said = task.make(jobs, alone=True), []
    with pytest.raises(StopIteration) as end:
        while True:
            said.append(next(making))
    assert sent == [(0, 3), (1, 0)] and [*end.value.value] == [0, 1]
    why = "data: a row is none: the other rows are read, to count the bad ones"
    assert said == [{"at": "the tokens of its data", "say": why}]
