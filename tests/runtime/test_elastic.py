"""Launchers of several hosts, which go on with fewer and with more again: small programs, started by real ones."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from redco_runtime.cluster import elastic
from redco_runtime.cluster.elastic import Hosts, Note, Plan
from redco_runtime.cluster.fewer import Needs
from redco_runtime.cluster.rendezvous import BootError

RUNTIME = Path(__file__).parents[2] / "runtime"
LAUNCH = """
from redco_runtime.cluster import elastic, launch
elastic.BEAT, elastic.SETTLE, launch.PAUSES, launch.LEAST = 0.05, 0.5, (0.05,), 0
launch.main()
"""
NEEDS = Needs({"data": 4, "fsdp": 1}, ["data"], 16, 1, True, {}, {}, 0, 0)
# Writes who it is, what a step needs, and what it is given, and ends when it is told to, as all others of its attempt
# do: it has no need of JAX.
PROGRAM = f"""
import os, signal, sys
stops = []
signal.signal(signal.SIGTERM, lambda *_: stops.append(1))
import time
from pathlib import Path
folder = Path(sys.argv[sys.argv.index("--workdir") + 1])
index, count = (os.environ["REDCO_PROCESS_" + x] for x in ("INDEX", "COUNT"))
if path := os.environ.get("REDCO_NEEDS"):
    part = Path(f"{{path}}.{{index}}")
    part.write_text({json.dumps(asdict(NEEDS))!r})
    part.replace(path)
mine = folder / f"{{count}} {{index}} {{' '.join(sys.argv[3:])}} {{os.getppid()}}"
mine.touch()
while True:
    time.sleep(0.02)
    if stops:
        (folder / f"stop {{count}}").touch()
    for name, code in (("stop", 75), ("lost", 69)):
        if (folder / f"{{name}} {{count}}").exists():
            sys.exit(code)
"""


@pytest.fixture
def start(tmp_path):
    """start(index): the launcher of a host; all are killed in the end."""
    (tmp_path / "program.py").write_text(PROGRAM)
    started = []

    def start(index):
        env = os.environ | {
            "PYTHONPATH": f"{RUNTIME}{os.pathsep}{tmp_path}",
            "REDCO_COORDINATOR": "localhost:7000",
            "REDCO_PROCESS_COUNT": "4",
            "REDCO_PROCESS_INDEX": str(index),
        }
        flags = ["--elastic", "4", "-m", "program", "--workdir", str(tmp_path)]
        process = subprocess.Popen([sys.executable, "-c", LAUNCH, *flags], env=env)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def wait_for(there, seconds=60):
    until = time.monotonic() + seconds
    while not there() and time.monotonic() < until:
        time.sleep(0.02)
    assert there()


@pytest.mark.slow  # ten processes, each of which imports JAX
def test_four_are_two_without_the_first_and_four_again(start, tmp_path):
    def attempts(count):
        return [path.name.split() for path in tmp_path.glob(f"{count} *")]

    hosts = [start(index) for index in range(4)]
    wait_for(lambda: len(attempts(4)) == 4)
    hosts[0].kill()  # whose process saves, as its launcher is gone, and is killed here too
    (tmp_path / "lost 4").touch()
    wait_for(lambda: len(attempts(2)) == 2)
    pids = {str(host.pid) for host in hosts[1:3]}
    flags = ["--mesh", "data=2,fsdp=1", "--micro-batches", "1"]
    assert {name[-1] for name in attempts(2)} == pids
    assert all(name[2:-1] == flags for name in attempts(2))
    for path in tmp_path.glob("* 4"):
        path.unlink()
    for path in tmp_path.glob("4 *"):
        path.unlink()
    hosts[0] = start(0)
    wait_for(lambda: len(attempts(4)) == 4)
    hosts[2].send_signal(signal.SIGTERM)
    assert [host.wait(60) for host in hosts] == [elastic.STOPPED] * 4


@pytest.fixture
def hosts(tmp_path):
    """hosts(index, **variables): the launchers of four hosts as one sees them, which looks when it is told to."""

    def hosts(index, **more):
        names = ("REDCO_COORDINATOR", "REDCO_PROCESS_COUNT", "REDCO_PROCESS_INDEX")
        env = dict(zip(names, ("127.0.0.1:7000", "4", str(index)), strict=True)) | more
        return Hosts(env, tmp_path, 20.0, ["-m", "program"])

    return hosts


@pytest.fixture
def still(monkeypatch):
    monkeypatch.setattr(Hosts, "_beat", lambda self: None)


def say(folder, index, **note):
    note = Note(**{"birth": 10 + index, "time": time.time_ns(), **note})
    (folder / "elastic").mkdir(exist_ok=True)
    (folder / f"elastic/host-{index}.json").write_text(json.dumps(asdict(note)))


@pytest.mark.usefixtures("still")
def test_of_two_plans_that_of_the_lower_host_holds(hosts, tmp_path):
    one = hosts(2)
    for index in (1, 0):
        say(tmp_path, index, plan=Plan(3, [[index, 10 + index], [2, 0]], "x:1"))
        one._look(index)
    say(tmp_path, 1, plan=Plan(3, [[1, 11], [2, 0]], "x:1"))
    one._look(1)
    assert one._note.plan.indices == [0, 2]
    assert one.signal() == signal.SIGKILL  # of a process of no plan, or of an older one


@pytest.mark.usefixtures("still")
def test_a_note_of_a_former_run_is_of_nobody(hosts, tmp_path):
    """It waits for those whose notes are new, and joins no plan of a launcher that was killed."""
    for index in (1, 2, 3):
        say(tmp_path, index, plan=Plan(7, [[0, 1], [1, 11]], "x:1"), code=0)
    one = hosts(0)
    for _ in range(3):
        for index in one._others():
            one._look(index)
        one._make_plan()
    assert one._note.plan.number == 7 and one._sights[1].code is None
    for index in (1, 2, 3):
        say(tmp_path, index)
        one._look(index)
    one._make_plan()
    assert one._note.plan.number == 8 and one._note.plan.indices == [0, 1, 2, 3]
    assert one._note.plan.address == "127.0.0.1:7000"


@pytest.mark.usefixtures("still")
def test_who_looks_at_whom(hosts, tmp_path):
    """A host that is not the first reads one note a beat, which has the plan."""
    last = hosts(3)
    assert [*last._others()] == [0]
    last._sights[0] = elastic.Sight(looks=11)  # gone
    assert [*last._others()] == [0, 1] and [*hosts(0)._others()] == [1, 2, 3]
    last._note = Note(1, plan=Plan(1, [[3, 1], [2, 1]], "x:1"))
    assert [*last._others()] == [0, 1, 2]


@pytest.mark.usefixtures("still")
def test_where_process_0_listens_on_another_host(hosts, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(elastic, "_own_address", lambda host, port: f"by-{host}-{port}")
        assert hosts(3)._address == "by-127.0.0.1-7000:7000"
        assert hosts(0)._address == "127.0.0.1:7000"
    assert hosts(3)._address == "127.0.0.1:7000"
    assert hosts(3, REDCO_COORDINATOR="no.such.host:7000")._address.endswith(":7000")


@pytest.mark.parametrize(
    "env",
    [
        {"REDCO_PROCESS_COUNT": "1", "REDCO_PROCESS_INDEX": "0"},
        {"TPU_WORKER_HOSTNAMES": "a,b,c,d"},
    ],
)
def test_hosts_that_cannot_do_without_each_other(hosts, env):
    with pytest.raises(BootError, match="start one launcher on each of several hosts"):
        hosts(0, **env)


@pytest.mark.usefixtures("still")
def test_a_signal_ends_the_wait_for_hosts_with_a_line(hosts, tmp_path, capsys):
    (tmp_path / "elastic").mkdir()
    assert hosts(0).join([signal.SIGINT]) == elastic.STOPPED
    assert "launch: stopped while it waited" in capsys.readouterr().err


@pytest.mark.usefixtures("still")
def test_a_host_is_gone_after_a_deadline_s_beats_of_the_same_note(hosts, tmp_path):
    one = hosts(1)
    say(tmp_path, 0)
    one._look(0)
    here = []
    for _ in range(round(20 / elastic.BEAT)):
        here.append(one._is_here(0))
        one._look(0)
    assert all(here) and not one._is_here(0)


def test_notes_keep_no_launcher_alive(hosts, monkeypatch):
    end = threading.Event()
    monkeypatch.setattr(Hosts, "_beat", lambda self: end.wait())
    hosts(1)
    assert [one.daemon for one in threading.enumerate() if one.name == "notes"] == [True]
    end.set()
