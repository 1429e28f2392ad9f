"""Start the processes of this host, and start them again from the last checkpoint when one crashes.

python -m my_project.runtime.cluster.launch --processes 2 --max-restarts 3 -m my_project.train --workdir runs/a

One process, the default, is numbered by whatever started this one, such as SLURM or Kubernetes: start
one launch on each host, with the same flags. Several are a run of their own, on this host alone,
with [INDEX] before the lines of each.
Signals go on to the processes. No restart follows exit codes 0, 2 (mend the command), 3 (look at the
numbers) and 75 (stopped by a signal), nor the same fault of the program twice in a row: one exit code,
last line and step. What kills a process, or takes another from it (69), may come as often as there are
restarts; a new checkpoint gives all of these back. The exit code is that of the process that ended
first. A process that is stopped (SIGSTOP) for longer than --silence, when its peers on other hosts have left, is ended.
--elastic, on each host, goes on from the last checkpoint with fewer, the same batches, and with more again when they are back.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from ..base.messages import UserError, feature
from ..base.interrupts import Ears
from ..base.files import files_of_lines, whole_checkpoints, work_folder
from ..base.progress import SILENCE
from .relay import Output, is_alive, memory_kills, outlive_no_parent

STOPPED = 75  # exit code: a signal ended the run, the same command goes on
FINAL = (0, 2, 3, STOPPED)  # exit codes that another try would not change
LOST = 69  # exit code: another process was gone, or never came
SIGNALLED = 128  # exit codes above it are a shell's, of what a signal ended
GRACE = 30.0  # seconds for the others to end by themselves, with what they have to say
# Seconds before a restart: a network or a disk may need some to come back.
PAUSES = (1.0, 5.0, 15.0, 60.0)
POLL = 0.1
LEAST = 10.0  # seconds of --elastic: five notes
NOWHERE = Path("no work folder")  # of a command that names none
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True)
class Ended:
    """A process that has ended: its number on this host, and its return code as subprocess has it."""

    number: int
    code: int
    line: str = ""  # the last that it wrote to stderr, unless that is a terminal

    @property
    def exit_code(self) -> int:
        """What a shell would show: 128 and its number for a signal."""
        return self.code if self.code >= 0 else 128 - self.code

    @property
    def own(self) -> bool:
        """Whether it is a fault of the program itself: no signal killed it, and no other process was lost."""
        return 0 < self.code <= SIGNALLED and self.code != LOST

    def describe(self, killed_for_memory: bool) -> str:
        """Return one line that says how it ended."""
        if self.code >= 0:
            return f"process {self.number} ended with exit code {self.code}"
        name = signal.Signals(-self.code).name
        why = ": out of memory, the kernel says" if killed_for_memory else ""
        return f"process {self.number} was killed by signal {-self.code} ({name}){why}"


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    add = parser.add_argument
    add("--processes", type=int, default=1, metavar="N", help="on this host (default: 1)")
    limit = "of all processes, without a new checkpoint (default: $REDCO_MAX_RESTARTS, or 3)"
    most = os.environ.get("REDCO_MAX_RESTARTS", "3")
    add("--max-restarts", type=int, default=most, metavar="N", help=limit)
    fewer = "go on with fewer hosts, once one is silent for so long (default: 20)"
    add("--elastic", nargs="?", type=float, const=20.0, metavar="SECONDS", help=fewer)
    add("-m", metavar="MODULE FLAGS", required=True, help="the program and its own flags")
    words = sys.argv[1:]
    place = words.index("-m") if "-m" in words else len(words)
    options = parser.parse_args(words[: place + 2])
    if options.processes < 1 or options.max_restarts < 0:
        parser.error("--processes is 1 at least, --max-restarts 0")
    command = [sys.executable, "-u", "-m", options.m, *words[place + 2 :]]
    one, hosts = Launch(command, options.processes), None
    if options.elastic is not None:
        workdir = one.flag("workdir")
        if options.processes > 1 or options.elastic < LEAST or workdir == NOWHERE:
            parser.error(f"--elastic takes {LEAST:g} seconds or more, one process, and --workdir")
        try:
            elastic = feature("elastic", "cluster.elastic")
            hosts = elastic.Hosts(os.environ, workdir, options.elastic, words[place:])
        except UserError as error:
            parser.exit(error.code, f"error: {error}\n")
    sys.exit(one.run(options.max_restarts, hosts))


class Launch:
    """The processes of one command on this host."""

    def __init__(self, command: Sequence[str], count: int) -> None:
        self._command, self._count = command, count
        self._running: list[subprocess.Popen[bytes]] = []
        self._outputs: list[list[Output]] = []  # of those: stderr, and stdout
        self._signals: list[int] = []  # that came to this process
        self._hosts: Any = None  # those of --elastic

    def run(self, max_restarts: int, hosts: Any = None) -> int:
        """Return the exit code of the last try, once one has ended well or no further one would; fewer `hosts` may try."""
        self._hosts = hosts
        with Ears(SIGNALS, self._pass_on):
            code = self._repeat(max_restarts)
            if hosts:
                hosts.leave(code)
            return code

    def _repeat(self, max_restarts: int) -> int:
        """Try until a code is returned that is final, or a signal comes, or a limit is reached."""
        restarts, started, fault = 0, self._last_checkpoint(), None
        furthest = started
        while True:
            if self._hosts and (over := self._hosts.join(self._signals)) is not None:
                return over
            ended = self._try()
            code, before, reached = ended.exit_code, fault, self._last_checkpoint()
            if code == STOPPED and self._hosts and not self._signals:
                continue  # for more hosts; where another launcher had a signal, it says so
            if code in FINAL:
                return code
            if reached > furthest:
                restarts, furthest = 0, reached
            if not self._signals:
                if restarts == max_restarts:
                    _say(f"gives up after {max_restarts} restarts without a new checkpoint")
                    return code
                step = max(self._last_step(), reached)
                fault = (code, ended.line, step) if ended.own else None
                if fault and fault == before:
                    what = f"exit code {code}" + (f", after step {step}" if step >= 0 else "")
                    line = f": {ended.line}" if ended.line else ""
                    _say(f"gives up: the same fault twice in a row, {what}{line}")
                    return code
                pause = PAUSES[min(restarts, len(PAUSES) - 1)]
                restarts += 1
                goes_on = f"from step {reached}" if reached >= 0 else "anew"
                _say(f"restart {restarts} of {max_restarts} in {pause:g} s, {goes_on}")
                until = time.monotonic() + pause
                while time.monotonic() < until and not self._signals:
                    time.sleep(POLL)
            if self._signals:  # during a restart; what was done before that is saved
                return STOPPED if reached > started else code

    def _try(self) -> Ended:
        """Start all, and return the first that ended badly, or the last, once none is left."""
        kills, command = memory_kills(), list(self._command)
        port = random.randrange(61440, 65536)  # above those that Linux gives to connections
        for index in range(self._count):
            mine, prefix = {}, ""
            if self._hosts:
                mine = self._hosts.variables
                command += self._hosts.plan.flags
            elif self._count > 1:
                mine = {
                    "REDCO_COORDINATOR": f"localhost:{port}",
                    "REDCO_PROCESS_COUNT": str(self._count),
                    "REDCO_PROCESS_INDEX": str(index),
                }
                prefix = f"[{index}] "
            process = subprocess.Popen(
                command,
                bufsize=0,
                stderr=None if not prefix and sys.stderr.isatty() else subprocess.PIPE,  # for bars
                # What process 0 says is the run's, and may be read by a program.
                stdout=subprocess.PIPE if index else None,
                env=os.environ | mine,
                preexec_fn=outlive_no_parent,
            )
            self._running.append(process)
            both = ((process.stderr, sys.stderr), (process.stdout, sys.stdout))
            self._outputs.append([Output(pipe, to, prefix) for pipe, to in both])
        for number in self._signals[-1:]:  # that came before one of them was there
            self._send(number)
        try:
            first = self._first_bad()
            if first.code:
                until = time.monotonic() + GRACE
                while time.monotonic() < until and any(map(is_alive, self._running)):
                    self._sleep()
        finally:
            for process in self._running:
                process.kill()  # one that is stopped too
                process.wait()
            lines = [[one.close() for one in outputs][0] for outputs in self._outputs]
            self._running.clear()
            self._outputs.clear()
        if first.code:
            _say(first.describe(memory_kills() > kills))
        return replace(first, line=lines[first.number])

    def _first_bad(self) -> Ended:
        """Wait until a process has ended badly, or all have ended; end one that is stopped for long."""
        awake = dict.fromkeys(self._running, time.monotonic())
        patience = self.flag("silence") + GRACE
        while True:
            for index, process in enumerate(self._running):
                if process.poll() is not None or is_alive(process):
                    awake[process] = time.monotonic()
                elif time.monotonic() > awake[process] + patience:
                    stopped = f"has been stopped (SIGSTOP) for {patience:g} s: ending it"
                    _say(f"process {index} {stopped}")
                    process.kill()
                    process.wait()
            codes = enumerate(process.poll() for process in self._running)
            ended = [Ended(index, code) for index, code in codes if code is not None]
            # What a signal killed is the cause of what ended by itself in the same moment.
            bad = sorted((e for e in ended if e.code), key=lambda e: e.code)
            if bad:
                return bad[0]
            if len(ended) == len(self._running):
                return ended[-1]
            if self._hosts and (number := self._hosts.signal()):
                self._send(number)
            self._sleep()

    def _sleep(self) -> None:
        """Wait a moment, and pass on what the processes say."""
        time.sleep(POLL)
        for output in chain(*self._outputs):
            output.pass_on()

    def _pass_on(self, number: int) -> None:
        """Pass a signal to the processes; Ctrl-C reaches those of a terminal without that."""
        self._signals.append(number)
        if number != signal.SIGINT or not sys.stdin.isatty():
            self._send(number)

    def _send(self, number: int) -> None:
        for process in [*self._running]:
            with suppress(ProcessLookupError):
                process.send_signal(number)

    def _last_checkpoint(self) -> int:
        """Return the step of the newest checkpoint in the work folder of the command, -1 for none."""
        with suppress(OSError):  # of a bucket out of reach
            return max(whole_checkpoints(self.flag("workdir") / "checkpoints"), default=-1)
        return -1

    def _last_step(self) -> int:
        """Return the step at which the last event of the run began, -1 for none."""
        try:
            last = files_of_lines(self.flag("workdir") / "events.jsonl")[-1]
            return int(json.loads(last.read_bytes().splitlines()[-1])["step"])
        except (OSError, ValueError, LookupError, TypeError):
            return -1

    def flag(self, name: str) -> Any:
        """Return the work folder of the command, or its silence."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("--workdir", type=work_folder, default=NOWHERE)
        parser.add_argument("--silence", type=float, default=SILENCE)
        return getattr(parser.parse_known_args(self._command)[0], name)


def _say(text: str) -> None:
    with suppress(OSError):  # the terminal may be gone, and what runs shall save
        print(f"launch: {text}", file=sys.stderr)


if __name__ == "__main__":
    main()
