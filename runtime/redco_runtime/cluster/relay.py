"""What the processes of a launcher say: passed on, and their last words kept."""

import os
import re
from contextlib import suppress
from typing import TextIO

LOG_LINE = re.compile(rb"[IWEF]\d{4} ")  # of C++, with its time: no last word
TAIL = 4096  # bytes that have the last line


class Output:
    """What a process writes to stderr, or stdout, which is passed on as it comes: by lines, with `prefix` before each.

    Without one it writes to a terminal itself, where a bar needs that, and its last line is not known.
    """

    def __init__(self, to: TextIO, prefix: str = "") -> None:
        self._to, self._prefix, self._tail, self._line = to, prefix.encode(), b"", b""
        self._read, self.end = -1, -1  # end: what the process is given
        if prefix or not to.isatty():
            self._read, self.end = os.pipe()
            os.set_blocking(self._read, False)

    def close_end(self) -> None:
        """Leave its end to the process, which has it now."""
        if self.end >= 0:
            os.close(self.end)

    def pass_on(self) -> None:
        """Write what it wrote since."""
        with suppress(BlockingIOError):
            while self._read >= 0 and (text := os.read(self._read, 1 << 16)):
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
        if self._read >= 0:
            os.close(self._read)
        if self._line:
            self._write(self._prefix + self._line + b"\n")
        lines = re.split(rb"[\r\n]+", self._tail)
        said = [line for line in lines if line.strip() and not LOG_LINE.match(line)]
        return said[-1].decode(errors="replace").strip() if said else ""
