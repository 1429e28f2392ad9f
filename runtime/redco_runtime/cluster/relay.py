"""The processes of a launcher: what they say, passed on with their last words kept, and what the system says of them."""

import ctypes
import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import IO, TextIO

LOG_LINE = re.compile(rb"[IWEF]\d{4} ")  # of C++, with its time: no last word
TAIL = 4096  # bytes that have the last line
PR_SET_PDEATHSIG = 1  # of linux/prctl.h
MEMORY_EVENTS = Path("/sys/fs/cgroup/memory.events")  # of cgroup v2; counts what the kernel killed


class Output:
    """What a process writes to `pipe`, which is passed on as it comes: by lines, with `prefix` before each.

    pipe: without a buffer; None for a process that writes to a terminal itself, whose last line is not known.
    """

    def __init__(self, pipe: IO[bytes] | None, to: TextIO, prefix: str) -> None:
        self._pipe, self._to, self._prefix = pipe, to, prefix.encode()
        self._tail, self._line = b"", b""
        if pipe:
            os.set_blocking(pipe.fileno(), False)

    def pass_on(self) -> None:
        """Write what it wrote since."""
        while self._pipe and (text := self._pipe.read(1 << 16)):
            self._tail = (self._tail + text)[-TAIL:]
            if self._prefix:
                *lines, self._line = (self._line + text).split(b"\n")
                text = b"".join(self._prefix + line + b"\n" for line in lines)
            self._write(text)

    def _write(self, text: bytes) -> None:
        with suppress(OSError):  # nobody reads it any more, and the process shall save
            self._to.buffer.write(text)
            self._to.flush()

    def close(self) -> str:
        """Return the last line, "" for none."""
        self.pass_on()
        if self._pipe:
            self._pipe.close()
        if self._line:
            self._write(self._prefix + self._line + b"\n")
        lines = re.split(rb"[\r\n]+", self._tail)
        said = [line for line in lines if line.strip() and not LOG_LINE.match(line)]
        return said[-1].decode(errors="replace").strip() if said else ""


def outlive_no_parent() -> None:
    """Make this process, a new one, save and leave where its launcher is killed; on Linux alone."""
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def is_alive(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process runs: has not ended, nor is stopped, where the system says so in /proc."""
    state = ""
    with suppress(OSError):
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return process.poll() is None and state != "T"


def memory_kills() -> int:
    """Return how many processes of this container the kernel has killed for want of memory."""
    with suppress(OSError):
        for line in MEMORY_EVENTS.read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
