"""Processes meet, or each of them says why they cannot. Threads stand for processes here."""

import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from redco_runtime.cluster import rendezvous
from redco_runtime.cluster.rendezvous import BootError, Member, find_address, find_faults, meet

FACTS = {"jax version": "0.10.2", "config hash": "a"}


@pytest.fixture(autouse=True)
def little_grace(monkeypatch):
    monkeypatch.setattr(rendezvous, "GRACE", 0.5)


@pytest.fixture
def port():
    """Above the ports that connections get, so that no other program comes by it."""
    return random.randrange(61440, 65536)


def member(index, count=2, **changes):
    return replace(Member(index, count, f"host{index}", FACTS), **changes)


def close(door):
    if isinstance(door, socket.socket):
        door.close()


def meet_all(port, *members, timeout=10.0):
    """What each of `members` is told: None, or the exit code and the fault."""

    def run(me):
        try:
            close(meet(me, f"localhost:{port}", timeout))
        except BootError as fault:
            assert not fault.silent or me.index  # process 0 prints it
            return f"{fault.code}: {fault}"

    with ThreadPoolExecutor(len(members)) as threads:
        return list(threads.map(run, members))


def test_all_meet_and_free_the_port(port, caplog):
    for _ in range(2):
        assert meet_all(port, *(member(index, 4) for index in (3, 1, 2, 0))) == [None] * 4
    socket.create_server(("", port)).close()
    assert not caplog.records


def test_ipv6_address(port):
    with ThreadPoolExecutor(2) as threads:
        doors = threads.map(lambda index: meet(member(index), f"[::1]:{port}", 10), (0, 1))
        lifeline, visited = doors
        assert visited == ("::1", lifeline.getsockname()[1])
        lifeline.close()


def test_missing_processes_are_named(port):
    begin = time.monotonic()
    first, second = meet_all(port, member(0, 20), member(3, 20), timeout=1)
    assert time.monotonic() - begin < 5
    assert first == second
    assert first.startswith("69: waited 1 s on host0") and "for 20 processes" in first
    assert "never came: 1, 2, 4, 5, 6, 7, 8, 9, and 10 more;" in first
    assert "these did: process 0 on host0, process 3 on host3." in first


def test_no_process_0(port):
    (fault,) = meet_all(port, member(1), timeout=1)
    place = f"process 0 at localhost:{port}"
    assert fault.startswith(f"69: process 1 on host1 could not meet {place} within 1 s")
    assert "refused" in fault


@pytest.mark.parametrize(
    ("others", "fault"),
    [
        (
            [member(1, facts=FACTS | {"config hash": "b"})],
            "process 1 on host1 has config hash 'b', but process 0 on host0 has 'a'",
        ),
        (
            [member(1, facts=FACTS | {"jax version": "0.11.0"})],
            "process 1 on host1 has jax version '0.11.0', but process 0 on host0 has '0.10.2'",
        ),
        (
            [member(1, 3)],
            "process 1 on host1 has process count 3, but process 0 on host0 has 2",
        ),
        (
            [member(1, 3), member(2, 3)],
            "process 2 on host2 has process count 3, but process 0 on host0 has 2",
        ),
        (
            [member(1, 3, host="a"), member(1, 3, host="b")],
            "has the index of process 1 on",
        ),
        (
            [member(1, address="127.0.1.1")],
            "process 1 on host1: the host's name must resolve to its network address, not to 127.0.1.1",
        ),
    ],
)
def test_all_are_told_the_fault(port, others, fault):
    begin = time.monotonic()
    told = meet_all(port, member(0), *others)
    assert time.monotonic() - begin < 5
    assert set(told) == {told[0]}
    assert told[0].startswith("2: ") and fault in told[0]


def test_taken_port(port):
    begin = time.monotonic()
    with socket.create_server(("", port)):
        with pytest.raises(
            BootError,
            match=f"process 0 on host0 cannot listen on port {port}: Address already in use",
        ):
            meet(member(0), f"localhost:{port}", 10)
    assert time.monotonic() - begin < 5


def test_two_processes_0_are_told_the_fault_and_one_says_it(port):
    def run(host):
        with pytest.raises(
            BootError, match="process 0 on . has the index of process 0 on ."
        ) as fault:
            meet(member(0, 3, host=host), f"localhost:{port}", 10)
        return str(fault.value), fault.value.code, fault.value.silent

    with ThreadPoolExecutor(2) as threads:
        told = list(threads.map(run, "ab"))
    assert sorted(told) == [(told[0][0], 2, silent) for silent in (False, True)]


def knock(port, message):
    """Connects to process 0, says `message`, and leaves."""
    for _ in range(100):
        try:
            with socket.create_connection(("localhost", port)) as connection:
                return connection.sendall(message)
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise TimeoutError


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"PRI * HTTP/2.0\r\n\r\n",
        b'{"index": 1}\n',
        b'{"index": 1, "count": 3, "host": "gone", "facts": {}}\n',
    ],
)
def test_strangers_and_who_left_do_not_count(port, message):
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(meet, member(0, 3), f"localhost:{port}", 10)
        knock(port, message)
        time.sleep(0.3)
        assert meet_all(port, member(1, 3), member(2, 3)) == [None, None]
        close(first.result())


def test_a_stranger_who_stays_and_says_nothing_holds_up_nobody(port, caplog):
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(meet, member(0), f"localhost:{port}", 10)
        knock(port, b"")
        with socket.create_connection(("localhost", port)):
            begin = time.monotonic()
            assert meet_all(port, member(1)) == [None]
            close(first.result())
            assert time.monotonic() - begin < rendezvous.GRACE
    assert not caplog.records


def test_who_is_awaited_is_said(port, monkeypatch, capsys):
    monkeypatch.setattr(rendezvous, "NEWS", 0.2)
    meet_all(port, member(0, 3), member(1, 3), timeout=1)
    assert "boot: process 0 waits for 2 of 3\n" in capsys.readouterr().err
    meet_all(port, member(1), timeout=1)
    assert "boot: process 1 on host1 waits for process 0 at local" in capsys.readouterr().err


def test_addresses():
    local = [member(index, host="one", address="127.0.1.1") for index in (0, 1)]
    remote = [member(index, address=f"10.0.0.{index}") for index in (0, 1)]
    unknown = [member(index, address=None) for index in (0, 1)]
    assert [find_faults(members) for members in (local, remote, unknown)] == [[], [], []]
    (fault,) = find_faults([remote[0], member(1, address="")])
    assert "process 1 on host1" in fault and "not to nothing" in fault
    assert find_address("localhost") == "127.0.0.1"
    assert find_address("no such host") == ""


def test_process_0_may_have_a_file_open_for_each(port, monkeypatch):
    limits = [(1024, 4096)]
    monkeypatch.setattr(rendezvous.resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(rendezvous.resource, "setrlimit", lambda _, new: limits.append(new))
    rendezvous._allow_files(400)
    assert limits == [(1024, 4096)]
    rendezvous._allow_files(2064)
    assert limits[-1] == (4096, 4096)
    with pytest.raises(
        BootError, match=r"may have 4096 files open, and needs 6064 .*ulimit -Hn 6064"
    ):
        meet(Member(0, 3000, "here", {}), f"localhost:{port}", 5)
