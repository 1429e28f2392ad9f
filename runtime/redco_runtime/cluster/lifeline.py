"""Who of a run is still there: all end with one that is gone, silent, has failed or is stuck.

A thread of each process tells process 0 every second what the process does, on a connection of its
own, and hears from it. So the last line of each says which process went, where and why. JAX alone ends
some with an error of their network, some with a stack of C++, and some never.
"""

import asyncio
import atexit
import ctypes
import faulthandler
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, redirect_stderr, suppress
from dataclasses import astuple, dataclass, replace
from io import StringIO
from typing import Any

from ..base.messages import in_log, log_of
from ..base.progress import PROGRESS, Doing
from ..monitor.events import EVENTS
from .rendezvous import ABSENT, Door, Member
from .slowest import WINDOW, Share, Slowest

BEAT = 1.0  # seconds between two lines
# Seconds without a line after which a process is said to be late: more than whatever holds the lock of
# Python for long, such as a large array that is parsed.
LATE = 20.0
SETTLE = 2.0  # seconds in which a cause arrives whose consequence in another process was faster
KINDS = ("gone", "silent", "failed", "late")  # of faults; of several, the first is the cause
GONE = "is gone without a word: killed, by hand or for want of memory, or its host is down"
SILENT = "is silent for {:.0f} s: stopped, or its network is cut"
FAILED = 1  # exit code


@dataclass(frozen=True)
class Fault:
    """Why a run ends: process `index` is or has what `text` says; all processes end with `code`."""

    kind: str
    index: int
    text: str
    code: int = FAILED


class Lifeline:
    """This process among those of its run; where it is alone, it has a deadline only.

    door: of process 0 the socket where it listens, of the others its (host, port); None for one process.
    """

    def __init__(self, me: Member, door: Door | None = None) -> None:
        self._me, self._door = me, door
        self._names = {me.index: str(me)}
        self._lines: dict[int, asyncio.StreamWriter] = {}  # to the processes that are heard
        self._doing: dict[int, Doing] = {}
        self._shares: dict[int, Share] = {}
        self._slowest, self._window = Slowest(), time.monotonic()
        self._faults: list[Fault] = []
        self._failure: Fault | None = None  # of this process
        self._heard, self._left = threading.Event(), False
        self._loop = asyncio.new_event_loop()
        run = self._loop.create_task(self._run())
        target = self._loop.run_until_complete
        threading.Thread(target=target, args=[run], name="lifeline", daemon=True).start()
        atexit.register(self.leave)

    def fail(self, reason: str, code: int) -> bool:
        """Say why this process ends; return, when all know the cause, whether it is this process's to print."""
        self._failure = Fault("failed", self._me.index, f"has failed: {reason}", code)
        self._loop.call_soon_threadsafe(self._note, self._failure)
        said = self._heard.wait(SETTLE + 5 * BEAT if self._door else 0)  # by process 0
        return not (said and self._me.index)

    def leave(self) -> None:
        """Say goodbye: from here on nobody ends because this process is gone."""
        if self._door and not self._left:
            self._left = True
            said = asyncio.run_coroutine_threadsafe(self._say({"bye": True}), self._loop)
            with suppress(TimeoutError):
                said.result(BEAT)

    async def _run(self) -> None:
        if isinstance(self._door, tuple):
            visit = self._loop.create_task(self._visit(*self._door))  # noqa: F841 (keeps it alive)
        elif self._door:
            await asyncio.start_server(self._welcome, sock=self._door)
        while not self._left:
            before = time.monotonic()
            await asyncio.sleep(BEAT)
            if (gap := time.monotonic() - before) > LATE and not self._me.index:
                EVENTS.add("late", f"{self._me} was stopped for {gap:.0f} s")
            doing = PROGRESS.doing
            self._doing[self._me.index] = doing
            self._shares[self._me.index] = shares = PROGRESS.shares()
            await self._say({"doing": [doing.what, doing.step, doing.seconds], "shares": shares})
            self._compare()
            if doing.seconds > (most := PROGRESS.deadline()):
                text = f"{doing} takes longer than {most:.0f} s (--step-timeout)"
                self._note(Fault("late", self._me.index, text))
            judge = self._me.index == 0 or any(fault.index == 0 for fault in self._faults)
            if self._faults and judge:
                await asyncio.sleep(SETTLE)
                fault = self._cause()
                text = f"{self._names[fault.index]} {fault.text}"
                cause = replace(fault, text=text)
                await self._say({"end": astuple(cause)})
                until = time.monotonic() + SETTLE
                while self._lines and time.monotonic() < until:  # else words of theirs, unread,
                    await asyncio.sleep(0.01)  # would reset the connection, and that were lost
                self._end(cause)

    async def _welcome(self, words: asyncio.StreamReader, line: asyncio.StreamWriter) -> None:
        """Listen, as process 0, to one of the others."""
        with suppress(OSError, ValueError, TypeError, KeyError):  # a port scanner may knock too
            hello = json.loads(await words.readline())
            self._names[index := int(hello["index"])] = hello["name"]
            self._lines[index] = line
            await self._hear(index, words)

    async def _visit(self, host: str, port: int) -> None:
        """Listen to process 0, as one of the others."""
        self._names[0] = f"process 0 on {host}"
        try:
            words, self._lines[0] = await asyncio.open_connection(host, port)
        except OSError as error:
            print(f"boot: {self._me} does not reach {host}:{port}, where it would learn which process "
                  f"is gone: {error}", file=sys.stderr)  # fmt: skip
            return
        await self._say({"index": self._me.index, "name": str(self._me)})
        await self._hear(0, words)

    async def _hear(self, index: int, words: asyncio.StreamReader) -> None:
        """Take what a process says, until it leaves, or is lost."""
        missed = 0  # beats, of which one that was stopped itself has seen one
        while True:
            try:
                text = await asyncio.wait_for(words.readline(), BEAT)
            except TimeoutError:
                missed += 1
                if missed * BEAT >= PROGRESS.silence:
                    self._note(Fault("silent", index, SILENT.format(missed * BEAT), ABSENT))
                    break
                if missed == round(LATE / BEAT):
                    most = f"{PROGRESS.silence:.0f} s (--silence)"
                    self._tell(index, f"is late: {LATE:.0f} s without a word; at {most} it is lost")
                continue
            except OSError:
                text = b""
            if missed * BEAT >= LATE and text:
                self._tell(index, f"is back after {missed * BEAT:.0f} s")
                EVENTS.add("late", f"{self._names[index]} was late by {missed * BEAT:.0f} s")
            missed = 0
            if not text.endswith(b"\n"):
                self._note(Fault("gone", index, GONE, ABSENT))
                break
            match json.loads(text):
                case {"doing": [what, step, seconds], "shares": [own, devices]}:
                    self._shares[index] = own, devices
                    self._doing[index] = Doing(what, step, time.monotonic() - seconds)
                case {"fault": fault}:
                    self._note(Fault(*fault))
                case {"end": fault}:
                    self._end(Fault(*fault))
                case {"bye": True}:
                    break
        self._lines.pop(index).close()

    def _tell(self, index: int, what: str) -> None:
        """Print something of another process, once: by process 0, and of that by the next."""
        if index or self._me.index == 1:
            print(f"note: {self._names[index]} {what}", file=sys.stderr)

    def _compare(self) -> None:
        """Name, as process 0, the slowest process of the last window, once it has become that."""
        if (seconds := time.monotonic() - self._window) < WINDOW or self._me.index:
            return
        self._window += seconds
        if slowest := self._slowest(self._shares, seconds):
            print(f"note: {self._names[slowest[0]]} {slowest[1]}", file=sys.stderr)

    async def _say(self, words: dict[str, Any]) -> None:
        """Write a line to all that this process hears."""
        for line in list(self._lines.values()):
            with suppress(OSError):
                line.write(json.dumps(words).encode() + b"\n")
                await asyncio.wait_for(line.drain(), BEAT)

    def _note(self, fault: Fault) -> None:
        """Take a fault, and tell process 0 of one that is of this process."""
        if self._left or fault in self._faults:
            return
        self._faults.append(fault)
        if fault.index == self._me.index and self._me.index:
            self._loop.create_task(self._say({"fault": astuple(fault)}))

    def _cause(self) -> Fault:
        """Return the fault that the others follow from."""
        fault = min(self._faults, key=lambda fault: KINDS.index(fault.kind))
        same = [one for one in self._faults if (one.kind, one.text) == (fault.kind, fault.text)]
        fault = min(same, key=lambda one: one.index)
        if fault.kind != "late" or len(self._doing) < 2:
            return fault
        last = min(self._doing, key=lambda index: self._doing[index].place)
        doing, first = self._doing[last], max(self._doing.values(), key=lambda doing: doing.place)
        if doing.place == first.place:
            return Fault("late", 0, f"and all others: {fault.text}")
        text = f"is at {doing} for {doing.seconds:.0f} s; others are at {first}"
        return Fault("late", last, text)

    def _end(self, fault: Fault) -> None:
        """End this process. The cause is printed once, by process 0, or the next if that is gone; the others log it."""
        if fault.kind == "failed" and self._failure:
            if fault.index == self._me.index or fault.text.endswith(self._failure.text):
                return self._heard.set()  # which that thread waits for; else it has no more to say
        if fault.kind == "late":
            faulthandler.dump_traceback(2, all_threads=True)  # in the log, where there is one
        EVENTS.end("fault", fault.text)
        sys.stdout.flush()
        lost, log = fault.kind in ("gone", "silent"), log_of(fault.index)
        more = f"; its log: {log}" if log and (lost or os.path.exists(log)) else ""
        teller = 1 if lost and fault.index == 0 else 0
        with nullcontext(sys.__stderr__) if self._me.index == teller else in_log() as file:
            print(f"boot: {fault.text}{more}", file=file, flush=True)
        os._exit(fault.code)


_lifelines: list[Lifeline] = []  # of this process: one, from its boot on


def connect(me: Member, door: Door | None = None) -> None:
    """Watch, and be watched, from here on; `door` is that of `meet`."""
    if door:
        # JAX aborts at once where process 0 is gone. The thread that does waits first, by sleep(6) of
        # libc, as SIGABRT is 6, so that the last line of this process is the one that names the cause.
        libc = ctypes.CDLL(None)
        libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
        libc.signal(signal.SIGABRT, ctypes.cast(libc.sleep, ctypes.c_void_p))
    _lifelines.append(Lifeline(me, door))


def end(reason: str, code: int, kind: str = "fault", tell: Callable[[], Any] | None = None) -> None:
    """End this process at once, with an exit code, when all others know that it does, and why.

    At once, since JAX would hold it, and so all, in a barrier at exit. reason: its first line is told.
    kind: of the event. tell: writes more than `reason` to stderr, which goes to the log where process 0 says the line.
    """
    try:
        with redirect_stderr(StringIO()) as said:
            tell() if tell else print(reason, file=sys.stderr)
        text, line = said.getvalue(), reason.partition("\n")[0]
        with suppress(OSError), in_log() as log:  # a disk may be full
            log.write(text)
        own = all(lifeline.fail(line, code) for lifeline in _lifelines)
        if own or not log_of(0) and text.strip() != line:  # else it is said, or in the log
            sys.stderr.write(text)
        EVENTS.end(kind, reason)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
