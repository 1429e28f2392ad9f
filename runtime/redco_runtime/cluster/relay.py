"""What the processes of a launcher say: passed on, and their last words kept."""

import os
import re
import sys
from contextlib import suppress

LOG_LINE = re.compile(rb"[IWEF]\d{4} ")  # of C++, with its time: no last word
TAIL = 4096  # bytes that have the last line


class Stderr:
    """What a process writes to stderr, which is passed on as it comes.

    On a terminal it writes there itself, where a bar needs that, and its last line is not known.
    """

    def __init__(self) -> None:
        self._read, self.end, self._tail = -1, -1, b""  # end: what the process is given
        if not sys.stderr.isatty():
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
                with suppress(OSError):  # nobody reads it any more, and the process shall save
                    sys.stderr.buffer.write(text)
                    sys.stderr.flush()

    def close(self) -> str:
        """Return the last line, "" for none."""
        self.pass_on()
        if self._read >= 0:
            os.close(self._read)
        lines = re.split(rb"[\r\n]+", self._tail)
        said = [line for line in lines if line.strip() and not LOG_LINE.match(line)]
        return said[-1].decode(errors="replace").strip() if said else ""
