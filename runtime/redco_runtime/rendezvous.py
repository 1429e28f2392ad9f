"""All processes of a run meet over TCP before JAX starts, and agree or say why not.

JAX alone names nobody when a process is missing, crashes when the port is taken, and runs as two
when one process was told two and another three. So process 0 listens on the coordinator port first,
compares what the others say of themselves, tells all the verdict, and frees the port for JAX.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from redco_runtime.errors import UserError

GRACE = 2.0  # seconds for more to come after a fault, and for one message to arrive
POLL = 0.1  # seconds
NEWS = 10.0  # seconds between two lines that say who is awaited
LINE = 1 << 16  # bytes


class BootError(UserError):
    """A fault of the launch: processes that are missing, disagree, or cannot reach each other."""


@dataclass(frozen=True)
class Member:
    """What a process says of itself; `count` and `facts` must be the same in all of them."""

    index: int
    count: int
    host: str
    facts: dict[str, str]
    address: str | None = None  # of `host`, "" for none; None where nobody connects to it

    def __str__(self) -> str:
        return f"process {self.index} on {self.host}"


def find_address(host: str) -> str:
    """What the name of this host resolves to, "" for nothing."""
    try:
        return socket.gethostbyname(host)
    except OSError:
        return ""


def meet(me: Member, coordinator: str, timeout: float) -> None:
    """Returns once all `me.count` processes have come to process 0 at "host:port", and agree.

    Raises BootError within about `timeout` seconds, with the same message in all that came.
    """
    host, _, port = coordinator.rpartition(":")
    address, patience = (host.strip("[]"), int(port)), _Patience(timeout)
    fault = _visit(me, address, patience) if me.index else _receive_all(me, address[1], patience)
    if fault:
        raise BootError(fault)


def find_missing(members: Sequence[Member]) -> list[int]:
    """Indices that have not come; where the counts differ, by the largest."""
    count = max(member.count for member in members)
    return sorted({*range(count)} - {member.index for member in members})


def find_faults(members: Sequence[Member]) -> list[str]:
    """Where members contradict the first (process 0), share an index, or cannot be reached."""
    first, seen, faults = members[0], dict[int, Member](), list[str]()
    several_hosts = len({member.host for member in members}) > 1
    for member in members:
        other = seen.setdefault(member.index, member)
        if other is not member:
            faults.append(f"{member} has the index of {other}: give each process its own.")
        says, expected = ({"process count": m.count, **m.facts} for m in (member, first))
        for name in sorted(says.keys() | expected.keys()):
            if says.get(name) != expected.get(name):
                faults.append(
                    f"{member} has {name} {says.get(name)!r}, but {first} has "
                    f"{expected.get(name)!r}: start all with the same code and settings."
                )
        local = several_hosts and (member.address or "").startswith("127.")
        if local or member.address == "":
            faults.append(
                f"{member}: the host's name must resolve to its network address, not to "
                f"{member.address or 'nothing'}. Mend /etc/hosts there."
            )
    return faults


class _Patience:
    """A deadline, and a line now and then that says who is awaited."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.news = time.monotonic() + NEWS
        self.end = time.monotonic() + seconds

    def tell(self, text: str) -> None:
        if time.monotonic() >= self.news:
            self.news += NEWS
            print(f"boot: {text}", file=sys.stderr, flush=True)


def _receive_all(me: Member, port: int, patience: _Patience) -> str:
    """Process 0: waits for the others, answers each of them, and returns the fault or ""."""
    with selectors.DefaultSelector() as guests, contextlib.ExitStack() as connections:
        with _listen(me, port) as door:
            guests.register(door, selectors.EVENT_READ)
            while True:
                came = [key.data for key in guests.get_map().values() if key.data]
                faults, missing = find_faults([me, *came]), find_missing([me, *came])
                if faults:
                    patience.end = min(patience.end, time.monotonic() + GRACE)
                if not missing or time.monotonic() >= patience.end:
                    break
                patience.tell(f"process 0 waits for {_few(missing)} of {me.count}")
                for key, _ in guests.select(POLL):
                    if key.data:  # guests say no more: it left; restarted, it comes again
                        guests.unregister(key.fileobj)
                    elif guest := _welcome(connections.enter_context(door.accept()[0])):
                        guests.register(guest[0], selectors.EVENT_READ, guest[1])
            guests.unregister(door)
        fault = _few(faults, "\n  ")
        if missing and not faults:
            fault = (
                f"waited {patience.seconds:g} s on {me.host}, port {port}, for {me.count} "
                f"processes; these never came: {_few(missing)}; these did: {_few([me, *came])}. "
                "Look at the output of the missing. REDCO_BOOT_TIMEOUT sets the seconds to wait."
            )
        for key in guests.get_map().values():
            with contextlib.suppress(OSError):
                _send(key.fileobj, {"fault": fault})
    return fault


def _visit(me: Member, address: tuple[str, int], patience: _Patience) -> str:
    """The others: come to process 0 as soon as it listens, and return its verdict, "" for good."""
    place = f"process 0 at {address[0]}:{address[1]}"
    while True:
        try:
            with socket.create_connection(address, timeout=10) as connection:
                connection.settimeout(patience.seconds + 2 * GRACE)  # process 0 answers by then
                _send(connection, asdict(me))
                return _read(connection)["fault"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = str(error) or type(error).__name__
        if time.monotonic() >= patience.end:
            return (
                f"{me} could not meet {place} within {patience.seconds:g} s ({reason}). "
                "Does process 0 run there, and may this host reach that port?"
            )
        patience.tell(f"{me} waits for {place}: {reason}")
        time.sleep(POLL)


def _listen(me: Member, port: int) -> socket.socket:
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    try:
        return socket.create_server(("", port), family=family, dualstack_ipv6=dual)
    except OSError as error:
        raise BootError(
            f"{me} cannot listen on port {port}: {os.strerror(error.errno or 0)}. "
            "If another run, or another process 0, holds it, choose another port or index."
        ) from None


def _welcome(connection: socket.socket) -> tuple[socket.socket, Member] | None:
    connection.settimeout(GRACE)
    try:
        return connection, Member(**_read(connection))
    except (OSError, ValueError, TypeError):  # a port scanner, or JAX of an earlier run
        return None


def _send(connection: Any, message: dict[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _read(connection: socket.socket) -> dict[str, Any]:
    with connection.makefile("rb") as lines:
        if line := lines.readline(LINE):
            return json.loads(line)
    raise ConnectionError("it closed the connection before all had come")


def _few(items: Sequence[object], separator: str = ", ") -> str:
    more = [f"and {len(items) - 8} more"] if len(items) > 8 else []
    return separator.join([*(str(item) for item in items[:8]), *more])
