"""Which hosts make the next attempt of a run that goes on where one is gone: `launch --elastic`.

README.md has the rule. Each launcher writes a note of itself to the work folder, which is all that they share;
no lock and no clock is relied on: a host is gone whose note does not change.
"""

import json
import math
import signal
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from zlib import crc32

from ..base.messages import few
from ..base.files import is_bucket
from .fewer import Layout, Needs, choose_layout
from .launch import FINAL, STOPPED
from .launchers import who_am_i
from .rendezvous import NEEDS, BootError

BEAT = 2.0  # seconds between two notes
# Seconds that an attempt has before it ends for a host that is back: one that comes and goes costs a save and
# a start each time, which take about as long.
SETTLE = 60.0
BOOT = 60.0  # seconds at least for processes to meet whose launchers were all here: an import from a slow disk
POLL = 0.1


@dataclass(frozen=True)
class Plan:
    """An attempt: (index, birth) of its launchers, process 0's first; where these meet; more flags of the command."""

    number: int = 0
    members: list[list[int]] = field(default_factory=list)
    address: str = ""
    flags: list[str] = field(default_factory=list)

    @property
    def indices(self) -> list[int]:
        """The hosts that make it, by the index of their processes."""
        return [index for index, _ in self.members]

    @property
    def order(self) -> tuple[int, list[int]]:
        """What is greater of the plan that holds, of two: of one number, that of the lower host."""
        return self.number, [-index for index in self.indices[:1]]


@dataclass(frozen=True)
class Note:
    """What a launcher says of itself.

    birth: a number that no other launcher has. time: makes each note differ from the one before.
    runs: number of the attempt whose process it has; 0: it waits for one. code: with which it has left.
    plan: the newest that it knows.
    """

    birth: int
    time: int = 0
    runs: int = 0
    code: int | None = None
    plan: Plan = Plan()


@dataclass(frozen=True)
class Sight:
    """A note of another launcher; how many looks later it is the same; whether it is new since this one looks."""

    note: Note | None = None
    looks: int = 0
    fresh: bool = False

    @property
    def code(self) -> int | None:
        """The exit code with which the launcher has left."""
        return self.note.code if self.note and self.fresh else None

    @property
    def waits(self) -> bool:
        """Whether the launcher waits for a plan, or did when it was there."""
        return bool(self.note and self.fresh and self.code is None and not self.note.runs)


class Hosts:
    """The launchers of a run, as this one sees them. plan: of the attempt that it makes, or made last.

    env: says which one it is. deadline: seconds of silence after which one is gone. command: of the run.
    Raises BootError where hosts cannot do without each other.
    """

    def __init__(
        self, env: Mapping[str, str], workdir: Any, deadline: float, command: Sequence[str]
    ) -> None:
        one = who_am_i(env)
        if one.count < 2 or one.gpu is not None or "," in env.get("TPU_WORKER_HOSTNAMES", ""):
            todo = "start one launcher on each of several hosts, which are no slice of TPUs"
            raise BootError(f"--elastic: this is process {one.index} of {one.count}: {todo}")
        self.plan, self._me, self._count = Plan(), one.index, one.count
        host, _, port = one.coordinator.rpartition(":")
        self._address = f"{_own_address(host, int(port)) if one.index else host}:{port}"
        self._folder, self._deadline = workdir / "elastic", deadline
        self._needs = self._folder / f"needs-{crc32(repr(command).encode()):08x}.json"
        self._note, self._sights = Note(time.time_ns()), defaultdict[int, Sight](Sight)
        self._began, self._last_words, self._lock = 0.0, "", threading.Lock()
        threading.Thread(target=self._beat, name="notes", daemon=True).start()

    def join(self, signals: Sequence[int]) -> int | None:
        """Return None once a plan has this launcher, or the exit code, where the run is over, or signals have come.

        It is over where one that made the last attempt has left for good.
        """
        self._write(runs=0)
        while not signals:
            for index in self._note.plan.indices:
                if (code := self._sights[index].code) in FINAL:
                    return code
            self._make_plan()
            plan = self._note.plan
            if plan != self.plan and [self._me, self._note.birth] in plan.members:
                self.plan, self._began = plan, time.monotonic()
                self._write(runs=plan.number)
                return None
            time.sleep(POLL)
        self._say("stopped while it waited: the same command waits again")
        return STOPPED

    @property
    def variables(self) -> dict[str, str]:
        """Who the process of this launcher is in the attempt, for its environment."""
        indices = self.plan.indices
        return ({NEEDS: str(self._needs)} if len(indices) == self._count else {}) | {
            "REDCO_COORDINATOR": self.plan.address,
            "REDCO_PROCESS_COUNT": str(len(indices)),
            "REDCO_PROCESS_INDEX": str(indices.index(self._me)),
            "REDCO_BOOT_TIMEOUT": f"{max(self._deadline, BOOT):.0f}",
        }

    def signal(self) -> int:
        """Return what the process is sent: SIGTERM for more hosts, SIGKILL for a newer plan, 0 for nothing."""
        if self._note.plan != self.plan:
            return signal.SIGKILL
        indices = self.plan.indices
        if indices[0] == self._me and time.monotonic() > self._began + SETTLE:
            here = filter(self._is_here, {*range(self._count)}.difference(indices))
            more = [index for index in here if self._sights[index].waits]
            layout = self._choose(len(indices) + len(more)) if more else None
            if layout and layout.hosts > len(indices):
                self._say(f"{_name(more)} is back: this attempt saves and ends, for more hosts")
                self._began = math.inf
                return signal.SIGTERM
        return 0

    def leave(self, code: int) -> None:
        """Say that this launcher ends, and how."""
        self._write(runs=0, code=code)

    def _make_plan(self) -> None:
        """Make the next plan, if this is the lowest host that is here, and all wait that are."""
        others = {index for index in range(self._count) if index != self._me}
        here = {index for index in others if self._is_here(index)}
        if here and min(here) < self._me:
            return
        if late := [index for index in here if not self._sights[index].waits]:
            return self._say(f"waits for {_name(late)} of {self._count}")
        layout = self._choose(1 + len(here))
        lost = f"{_name(others - here)} of {self._count} is gone: "
        if layout is None:
            why = "its step does not fit on fewer, or was never compiled on all"
            return self._say(f"{lost}waits for more hosts, since {why}")
        if others - here:
            self._say(f"{lost}goes on with {layout.hosts}, {' '.join(layout.flags)}")
        notes = {i: sight.note for i, sight in self._sights.items()} | {self._me: self._note}
        chosen = sorted([self._me, *here])[: layout.hosts]
        members = [[i, note.birth] for i in chosen if (note := notes[i])]
        number = self._note.plan.number + 1
        self._write(plan=Plan(number, members, self._address, layout.flags))

    def _choose(self, here: int) -> Layout | None:
        return choose_layout(Needs.load(self._needs), here, self._count)

    def _is_here(self, index: int) -> bool:
        """Return whether a host is not gone; one that has left for good ends the run, and counts until then."""
        sight = self._sights[index]  # looks, and not seconds: a disk may hang for all
        return sight.looks * BEAT < self._deadline and sight.code in (None, *FINAL)

    def _beat(self) -> None:
        """Write a note every BEAT seconds, and read those of others that say what is next."""
        while self._note.code is None:
            self._write()
            for index in self._others():
                self._look(index)
            time.sleep(BEAT)

    def _others(self) -> Iterator[int]:
        """Yield who leads, and the lower ones, up to one that is here; the lowest, and who leads, look at all."""
        heads = self._note.plan.indices[:1]
        yield from {*heads} - {self._me}
        for index in range(self._count):
            if index not in (self._me, *heads):
                yield index
            if index < self._me and self._me not in heads and self._is_here(index):
                return

    def _look(self, index: int) -> Note | None:
        """Return the last note of another launcher; take its plan, if that is newer."""
        before, note = self._sights[index], None
        with suppress(OSError, ValueError, TypeError, LookupError):
            words = json.loads(self._path(index).read_bytes())
            note = Note(**words | {"plan": Plan(**words["plan"])})
        if note is None or note == before.note:
            self._sights[index] = replace(before, looks=before.looks + 1)
            return before.note
        with self._lock:
            if note.plan.order > self._note.plan.order:
                self._note = replace(self._note, plan=note.plan)
        self._sights[index] = Sight(note, fresh=before != Sight())
        return note

    def _write(self, **changes: Any) -> None:
        """Write the note of this launcher, with what has changed of it."""
        with self._lock, suppress(OSError):
            self._note = replace(self._note, time=time.time_ns(), **changes)
            path, text = self._path(self._me), json.dumps(asdict(self._note)).encode()
            beside = path if is_bucket(path) else path.with_suffix(".tmp")
            self._folder.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(text)
            if beside != path:
                beside.replace(path)

    def _path(self, index: int) -> Any:
        return self._folder / f"host-{index}.json"

    def _say(self, text: str) -> None:
        """Print what is new."""
        if text != self._last_words:
            self._last_words = text
            print(f"launch: {text}", file=sys.stderr)


def _own_address(other: str, port: int) -> str:
    """Return the address of this host on the way to another; its name, where it finds none."""
    with suppress(OSError):
        where = socket.getaddrinfo(other.strip("[]"), port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(*where[:2]) as way:
            way.connect(where[4])  # sends nothing
            address = str(way.getsockname()[0])
            return f"[{address}]" if ":" in address else address
    return socket.getfqdn()


def _name(hosts: Iterable[int]) -> str:
    """Return what some hosts are called: host 3, host 1, 3."""
    return f"host {few(sorted(hosts))}"
