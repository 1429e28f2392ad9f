"""All processes of a run meet over TCP before JAX starts, and agree or say why not.

JAX alone names nobody when a process is missing, crashes when the port is taken, and runs as two
when one process was told two and another three. So process 0 listens on the coordinator port first,
compares what the others say of themselves, tells all the verdict, and frees the port for JAX.
"""

import asyncio
import json
import os
import resource
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from typing import Any

from ..base.messages import UserError, few
from ..base.together import HOSTS

GRACE = 2.0  # seconds, well over what a local network takes: for more to come after a fault, and for the verdict to arrive
POLL = 0.1  # seconds: much less than a process takes to start
NEEDS = "REDCO_NEEDS"  # variable: the path where a run on all of its hosts writes what a step needs
ABSENT = 69  # exit code, EX_UNAVAILABLE of sysexits.h, of a process that lost or never met another
FILES = 2  # that process 0 has open for each process: for its lifeline, and of JAX
SPARE = 64  # that it has open for all else, at most
NEWS = 10.0  # seconds, so that a wait of 300 is 30 lines: between two lines that say who is awaited


Door = socket.socket | tuple[str, int]  # where process 0 listens from then on: there, and elsewhere


class BootError(UserError):
    """A fault of the launch: processes that are missing, disagree, or cannot reach each other.

    code: ABSENT where some did not come in time, who may at another try. silent: process 0 prints it.
    """

    def __init__(self, message: str, code: int = UserError.code, silent: bool = False) -> None:
        super().__init__(message)
        self.code, self.silent = code, silent


@dataclass(frozen=True)
class Member:
    """A process as it describes itself; `count` and `facts` must be the same in all of them."""

    index: int
    count: int
    host: str
    facts: dict[str, str]
    address: str | None = None  # of `host`, "" for none; None where nobody connects to it

    def __str__(self) -> str:
        return f"process {self.index} on {self.host}"

    @classmethod
    def alone(cls) -> "Member":
        """Return the only process of a run."""
        return cls(0, 1, socket.gethostname(), {})


def find_address(host: str) -> str:
    """Return what the name of this host resolves to, "" for nothing."""
    with suppress(OSError):
        return socket.gethostbyname(host)
    return ""


def meet(me: Member, coordinator: str, timeout: float) -> Door:
    """Return once all `me.count` processes have come to process 0 at "host:port", and agree.

    Returns a door that process 0 has opened for its lifeline, at any port. Raises BootError within
    about `timeout` seconds, with the same message in all that came.
    """
    host, _, port = coordinator.rpartition(":")
    address, patience = (host.strip("[]"), int(port)), _Patience(timeout)
    door = None
    if me.index:
        verdict = _visit(me, address, patience)
    else:
        _allow_files(FILES * me.count + SPARE)
        door = _open_door()
        try:
            verdict = asyncio.run(_receive_all(me, address[1], patience, door))
        except OSError as error:
            verdict = _visit(me, address, _Patience(GRACE))  # another process 0, which then knows
            if not verdict["silent"]:
                why = os.strerror(error.errno or 0)
                fault = f"{me} cannot listen on port {port}: {why}. If another run, or another "
                fault += "process 0, holds it, choose another port or index."
                verdict |= {"fault": fault, "code": UserError.code}
    if verdict["fault"]:
        if door:
            door.close()
        raise BootError(verdict["fault"], verdict["code"], verdict.get("silent", False))
    return door or (address[0], verdict["door"])


def _allow_files(needed: int) -> None:
    """Raise the limit of open files of this process, which all others come to. Raises BootError where it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = hard == resource.RLIM_INFINITY
    if not unlimited and hard < needed:
        raise BootError(
            f"process 0 may have {hard} files open, and needs {needed} for so many processes: "
            f"`ulimit -Hn {needed}` where it starts, or LimitNOFILE of its service."
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed if unlimited else hard, hard))


def find_faults(members: Sequence[Member]) -> list[str]:
    """Return where members contradict the first (process 0), share an index, or cannot be reached."""
    first, seen, faults = members[0], dict[int, Member](), list[str]()
    several_hosts = len({member.host for member in members}) > 1
    for member in members:
        other = seen.setdefault(member.index, member)
        if other is not member:
            faults.append(f"{member} has the index of {other}: give each process its own.")
        says, expected = ({"process count": m.count, **m.facts} for m in (member, first))
        faults += [
            f"{member} has {name} {says.get(name)!r}, but {first} has {expected.get(name)!r}: "
            "start all with the same code and settings."
            for name in sorted(says.keys() | expected.keys())
            if says.get(name) != expected.get(name)
        ]
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
            print(f"boot: {text}", file=sys.stderr)


def _open_door() -> socket.socket:
    """Return a socket that listens at any port, for IPv6 too where this host has it."""
    v6 = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if v6 else socket.AF_INET
    return socket.create_server(("", 0), family=family, dualstack_ipv6=v6)


async def _receive_all(
    me: Member, port: int, patience: _Patience, lifeline: socket.socket
) -> dict[str, Any]:
    """Wait, as process 0, for the others; return what each is answered: the "fault", or "".

    lifeline: where they are to come next.
    """
    guests: dict[asyncio.StreamWriter, Member] = {}

    async def welcome(words: asyncio.StreamReader, guest: asyncio.StreamWriter) -> None:
        # A port scanner may knock too, or JAX of an earlier run. In the end all are cancelled.
        with closing(guest), suppress(OSError, ValueError, TypeError, asyncio.CancelledError):
            guests[guest] = Member(**json.loads(await words.readline()))
            await words.read(1)  # guests say no more: it left; restarted, it comes again
        guests.pop(guest, None)

    with closing(await asyncio.start_server(welcome, port=port, start_serving=False)) as door:
        await door.start_serving()  # two may bind a port at once, and one alone listens
        while True:
            members = [me, *guests.values()]
            faults = find_faults(members)
            count = max(member.count for member in members)  # they may differ
            missing = sorted({*range(count)} - {member.index for member in members})
            if faults:
                patience.end = min(patience.end, time.monotonic() + GRACE)
            if not missing or time.monotonic() >= patience.end:
                break
            patience.tell(f"process 0 waits for {few(missing)} of {me.count}")
            await asyncio.sleep(POLL)
    fault = few(faults, separator="\n  ")
    if missing and not faults:
        fault = (
            f"waited {patience.seconds:g} s on {me.host}, port {port}, for {me.count} processes; "
            f"these never came: {few(missing)}; these did: {few(members)}. "
            "Look at the output of the missing. REDCO_BOOT_TIMEOUT sets the seconds to wait."
        )
    HOSTS[:] = [member.host for member in sorted(members, key=lambda member: member.index)]
    code = UserError.code if faults else ABSENT
    verdict = {"fault": fault, "code": code, "door": lifeline.getsockname()[1]}
    for guest in guests:
        guest.write(json.dumps(verdict).encode() + b"\n")
    return verdict


def _visit(me: Member, address: tuple[str, int], patience: _Patience) -> dict[str, Any]:
    """Come to process 0, as another one, as soon as it listens; return its answer: its fault, "" for good."""
    place = f"process 0 at {address[0]}:{address[1]}"
    while True:
        try:
            with socket.create_connection(address, timeout=10) as connection:
                connection.settimeout(patience.seconds + 2 * GRACE)  # process 0 answers by then
                connection.sendall(json.dumps(asdict(me)).encode() + b"\n")
                with connection.makefile("rb") as lines:
                    if line := lines.readline(1 << 16):
                        return {"fault": "", "silent": True, **json.loads(line)}
                reason = "it closed the connection before all had come"
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = str(error) or type(error).__name__
        if time.monotonic() >= patience.end:
            fault = (
                f"{me} could not meet {place} within {patience.seconds:g} s ({reason}). "
                "Does process 0 run there, and may this host reach that port?"
            )
            return {"fault": fault, "code": ABSENT, "silent": False}
        patience.tell(f"{me} waits for {place}: {reason}")
        time.sleep(POLL)
