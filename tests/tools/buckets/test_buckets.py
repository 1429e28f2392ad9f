"""Runs, data, weights and exports in a bucket that is emulated; how it is survived, `make table NAME=kills-bucket`."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from buckets.emulated import emulated_bucket
from survival.kills import survive
from survival.project import environment

from redco_new import cli
from redco_new.project.create import create_project
from redco_new.request import Request
from redco_runtime.base.messages import UserError
from redco_runtime.base.files import (
    any_path,
    append_line,
    cut_lines,
    files_of_lines,
    path_of,
    read_lines,
    work_folder,
)
from redco_runtime.data.prepare import build, formats, shared_shards
from redco_runtime.data.text.documents import Shape
from redco_runtime.data.tokenizer import load_tokenizer, make_encoder
from redco_runtime.data.text.sources import parse_sources
from redco_runtime.data.text.text_examples import TextMaker
from redco_runtime.run import lock

pytestmark = pytest.mark.filterwarnings("default")  # those of botocore are not ours


@pytest.fixture(scope="module")
def bucket():
    with emulated_bucket() as bucket:
        yield bucket


def test_of_many_one_becomes_the_owner(bucket):
    path = path_of(f"{bucket}/owned/lock.json")
    for _ in range(5):
        start = threading.Barrier(8)

        def take(number, start=start):
            start.wait()
            return path.become_owner(b"process %d" % number)

        with ThreadPoolExecutor(8) as pool:
            won = [*pool.map(take, range(8))]
        assert sum(won) == 1
        mine = b"process %d" % won.index(True)
        assert path.owner()[0] == mine and path.renew(mine) and not path.renew(b"process 9")
        path.disown(b"process 9")
        assert path.owner()[0] == mine
        path.disown(mine)
        assert path.owner() is None and not path.renew(mine)


def test_a_folder_is_taken_from_an_owner_that_is_gone_alone(bucket, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 1.0)
    workdir = path_of(f"{bucket}/held")
    path = workdir / lock.FILE
    other = {"host": "far", "pid": 1, "machine": "far", "began": "1", "since": "then"}
    text = json.dumps(other).encode()
    assert path.become_owner(text)
    ended = threading.Event()

    def beat():
        while not ended.wait(1.0):
            path.renew(text)

    thread = threading.Thread(target=beat)
    thread.start()
    with pytest.raises(UserError, match="in use by process 1 on far, since then, which lives"):
        lock.hold(workdir, print)
    ended.set()
    thread.join()
    lock.hold(workdir, print)
    assert b'"far"' not in path.owner()[0]
    lock.release()
    assert path.owner() is None


def test_lines_are_added_in_order_and_cut(bucket, monkeypatch):
    path = path_of(f"{bucket}/lines/metrics.jsonl")
    cut_lines(path)
    monkeypatch.setattr("redco_runtime.base.buckets.PART", 100)
    for step in range(30):
        append_line(path, {"step": step, "loss": float("nan")})
    assert [line["step"] for line in read_lines(path)] == [*range(30)]
    assert len(files_of_lines(path)) > 3
    cut_lines(path, 12)
    append_line(path, {"step": 13})
    assert [line["step"] for line in read_lines(path)] == [*range(14)]


def test_a_report_of_a_run_there(bucket, capsys):
    workdir = path_of(f"{bucket}/reported")
    for step in range(1, 4):
        append_line(workdir / "metrics.jsonl", {"step": step, "loss": 3 / step})
    assert cli.run(cli.redco_app, "redco", ["report", str(workdir)]) == 0
    assert f"{workdir}/report.html" in capsys.readouterr().out
    assert b"<svg" in (workdir / "report.html").read_bytes()
    assert (workdir / "report.png").read_bytes().startswith(b"\x89PNG")
    assert cli.run(cli.redco_app, "redco", ["report", f"{bucket}/none"]) == 2
    assert "give the --workdir of a run" in capsys.readouterr().err


def test_what_a_store_says_is_one_line(bucket, monkeypatch):
    with pytest.raises(UserError, match="cannot write .*bucket does not exist"):
        lock.hold(path_of("s3://nothing-of-that-name/a"), print)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    code = f"from redco_runtime.base.files import work_folder; work_folder('{bucket}/a')"
    path = ":".join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": path, **_aws()},
        capture_output=True,
        text=True,
    )
    assert "'s3://kept/a' cannot be one: " in done.stderr.splitlines()[-1]


def _aws():
    return {name: value for name, value in os.environ.items() if name.startswith("AWS")}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    flags = {"model": "gpt-j", "shards": "2", "features": "buckets", "folder": folder / "texts"}
    create_project(Request.from_flags("texts", **flags), folder)
    return folder


def run(project, program, *flags, code=0):
    env = environment(project) | {"HOME": str(project), **_aws()}
    env["PYTHONPATH"] = f"{project / 'texts'}:{env['PYTHONPATH']}"
    command = [sys.executable, "-m", f"texts.{program}", *flags]
    done = subprocess.run(command, env=env, cwd=project, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def losses(workdir):
    return [line["loss"] for line in read_lines(workdir / "metrics.jsonl")]


def test_a_run_of_a_bucket_is_that_of_a_disk(bucket, project):
    """Data, work folder, start and export in a bucket: the same losses, and the same weights, as on a disk."""
    rows = "".join(json.dumps({"text": f"text {i} " * 30}) + "\n" for i in range(200))
    (project / "data").mkdir()
    for where in (project, path_of(bucket)):
        (where / "data" / "a.jsonl").write_text(rows)
    tiny = (
        "--preset tiny --virtual-devices 2 --tokenizer bytes --log-every 1 --save-every 2".split()
    )
    ends = []
    for where in (str(project), bucket):
        data = ("--data", f"{where}/data/*.jsonl", "--token-folder", f"{where}/tokens")
        at = ("--workdir", f"{where}/a")
        run(project, "train", *tiny, *data, *at, "--steps", "3")
        if where == bucket:  # another machine copies the tokens, and makes none
            (index,) = path_of(f"{bucket}/tokens").glob("*/index-*.json")
            index.write_text(json.dumps(json.loads(index.read_text()) | {"documents": 777}))
            shutil.rmtree(project / ".cache" / "redco" / "buckets")
            assert "777 texts" in run(project, "prepare", *tiny, *data)
        said = run(project, "train", *tiny, *data, *at, "--steps", "5")
        assert f"resuming from step 3 in {where}/a/checkpoints" in said
        run(project, "export", *at, "--out", f"{where}/exported")
        assert "is there already" in run(
            project, "export", *at, "--out", f"{where}/exported", code=2
        )
        for init in ("a", "exported"):
            begun = ("--init", f"{where}/{init}", "--workdir", f"{where}/of-{init}", "--steps", "1")
            run(project, "train", *tiny, *data, *begun)
        there = [path_of(f"{where}/{name}") for name in ("a", "of-a", "of-exported")]
        weights = path_of(f"{where}/exported/model.safetensors").read_bytes()
        ends.append(([losses(path) for path in there], weights))
    assert ends[0] == ends[1]
    (project / "prompts.txt").write_text("text")
    asked = ("--file", "prompts.txt", "--out", f"{bucket}/answers.jsonl")
    run(project, "predict", "--workdir", f"{bucket}/a", *asked)
    assert json.loads(path_of(f"{bucket}/answers.jsonl").read_text())["prompt"] == "text"
    assert not [*project.glob("*:*")]


@pytest.fixture
def tokenizing(bucket, tmp_path, monkeypatch):
    """Runs host I of COUNT with a folder of its own: what it says, its files. made: (host, shard), one each time."""
    monkeypatch.setattr(formats, "RANGE", 2**12)
    monkeypatch.setattr(TextMaker, "shard", 2**13)
    monkeypatch.setattr(TextMaker, "portable", False)
    monkeypatch.setattr(shared_shards, "LONG_LOOK", 0.2)
    made, make = [], build.make_shard
    folder = f"{bucket}/{tmp_path.name}"
    maker = TextMaker(make_encoder(load_tokenizer("bytes")), "text")  # here: it is imported once

    def make_shard(job, maker):
        made.append((job.root.parent.name, job.number))
        time.sleep(0.1)  # else the first is done before the last has begun
        return make(job, maker)

    monkeypatch.setattr(build, "make_shard", make_shard)

    def host(number, count, bad="", name=None):
        text = tmp_path / f"{number}.jsonl"
        text.write_text('{"text": "abc def ghi"}\n' * 5000 + bad)
        (source,) = parse_sources("--data", [str(text)])
        path = tmp_path / (name or f"{number}") / "x" / "index-a.json"
        shape = Shape(64, "on", 0.1)
        answers = [*build.build(maker, source, path, 300, shape, folder, (number, count))]
        files = (x for x in path.parent.rglob("*") if x.is_file())
        return [x["say"] for x in answers if "say" in x], {x.name: x.read_bytes() for x in files}

    return host, made


def test_hosts_share_out_the_shards_of_a_bucket(tokenizing):
    host, made = tokenizing
    with ThreadPoolExecutor(3) as hosts:
        ends = [*hosts.map(host, range(3), [3] * 3)]
    shards = sorted(number for _, number in made)
    assert len(shards) > 12 and shards == [*range(len(shards))]
    assert {name for name, _ in made} == {"0", "1", "2"}
    assert ends[0] == ends[1] == ends[2] and ends[0][0] == []
    assert host(7, 8) == ends[0] and len(made) == len(shards)  # a late one


def test_runs_that_come_apart_share_out_the_shards_too(tokenizing):
    host, made = tokenizing
    with ThreadPoolExecutor(3) as runs:
        ends = [*runs.map(lambda name: host(0, 1, name=name), "abc")]
    shards = sorted(number for _, number in made)
    assert len(shards) > 12 and shards == [*range(len(shards))]
    assert {name for name, _ in made} == {"a", "b", "c"}
    assert ends[0] == ends[1] == ends[2] and ends[0][0] == []


def test_what_a_lost_host_does_not_send_the_others_make(tokenizing, monkeypatch):
    host, made = tokenizing
    monkeypatch.setattr(shared_shards, "PATIENCE", 1.0)
    with ThreadPoolExecutor(2) as hosts:
        ends = [*hosts.map(host, (0, 2), [3] * 2)]
    shards = {number for _, number in made}
    assert len(shards) > 12 and shards == {*range(len(shards))}
    assert ends[0][1] == ends[1][1]
    for said, _ in ends:
        assert len(said) == 1 and "did not come from other hosts within " in said[0]
    before = len(made)
    assert host(1, 3) == ([], ends[0][1]) and len(made) == before


def test_a_bad_row_in_the_part_of_one_host_ends_all(tokenizing, monkeypatch):
    host, _ = tokenizing
    monkeypatch.setattr(shared_shards, "PATIENCE", 1.0)

    def refused(number):
        with pytest.raises(UserError, match="line 5001 "):
            host(number, 2, bad="{")

    with ThreadPoolExecutor(2) as hosts:
        assert [*hosts.map(refused, range(2))] == [None, None]


def test_kills_are_survived(bucket, tmp_path):
    survived = survive(tmp_path, 2, seed=5, steps=40, bucket=bucket)
    assert [one.newest > 0 for one in survived.kills] == [True, True]


def test_paths_of_buckets(bucket):
    assert any_path("s3://kept/a") == work_folder("s3://kept/a") == path_of("s3://kept") / "a"
