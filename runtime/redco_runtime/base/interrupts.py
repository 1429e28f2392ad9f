"""Signals as they come: a thread hears them, whatever the main thread is at: an import, a call of C, a callback.

Python's own KeyboardInterrupt waits for such a call, is printed and forgotten in a callback, and is a
traceback before there is anyone to catch it.
"""

import atexit
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

INTERRUPTED = 130  # exit code of a shell for what Ctrl-C ended
APART = 1.0  # seconds: two Ctrl-C that are nearer are one, which a terminal and a launcher may both send
ENDING = ("its end", "the end of a save")  # of what a process is at


class Ears(AbstractContextManager["Ears"]):
    """In `with`, a thread calls hear(number) for each signal of these, which does nothing else.

    Those that nohup and the like have switched off stay so. In a thread it hears nothing: the main
    thread alone can have handlers.
    """

    def __init__(self, numbers: Sequence[signal.Signals], hear: Callable[[int], None]) -> None:
        self._numbers, self._hear = numbers, hear
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Ears":
        if threading.current_thread() is threading.main_thread():
            own = [n for n in self._numbers if signal.getsignal(n) != signal.SIG_IGN]
            # Handlers that leave the signal to the thread.
            self._before = {number: signal.signal(number, lambda *_: None) for number in own}
        if self._before:
            ears, self._mouth = os.pipe()
            os.set_blocking(self._mouth, False)
            self._wakeup = signal.set_wakeup_fd(self._mouth, warn_on_full_buffer=False)
            threading.Thread(target=self._listen, args=[ears], name="ears", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._before:
            signal.set_wakeup_fd(self._wakeup)
            for number, handler in self._before.items():
                signal.signal(number, handler)
            self._before = {}
            os.close(self._mouth)

    def _listen(self, ears: int) -> None:
        last = -APART
        with open(ears, "rb", buffering=0) as heard:
            while numbers := heard.read(1):
                number = numbers[0]
                if number == signal.SIGINT:
                    if time.monotonic() - last < APART:
                        continue
                    last = time.monotonic()
                if number in self._before:
                    self._hear(number)


class Program:
    """A program that Ctrl-C ends at once, in one line, from here on: until its loop takes the signals itself.

    Where all is done but the end of a save, it takes two.
    """

    def __init__(self) -> None:
        self._once = False
        Ears([signal.SIGINT], self._leave).__enter__()
        atexit.register(self._close)  # the first that is registered is the last that is called

    def _close(self) -> None:
        gc.freeze()  # else Python looks through all objects once more: 0.3 s with JAX
        if events := _imported("monitor.events", "EVENTS"):
            events.close()

    def _leave(self, _: int) -> None:
        progress = _imported("base.progress", "PROGRESS")
        if progress and progress.doing.what in ENDING and not self._once:
            self._once = True
            _say("SIGINT: ending, once what was saved is on the disk; again: at once")
            return
        message = "stopped: the same command goes on from the last checkpoint, if there is one"
        try:
            _say(message)
            # Where they are not imported yet, there is nobody to tell.
            if end := _imported("cluster.lifeline", "end"):
                end(message, INTERRUPTED, "signal", lambda: None)  # it is said
        finally:
            os._exit(INTERRUPTED)


def _imported(module: str, name: str) -> Any:
    """Return what a module of the runtime has by a name; None where that is not imported yet."""
    runtime = __name__.removesuffix(".base.interrupts")
    return getattr(sys.modules.get(f"{runtime}.{module}"), name, None)


def _say(text: str) -> None:
    """Write a line to stderr past Python's buffers, which the main thread may hold."""
    try:
        os.write(2, f"{text}\n".encode())
    except OSError:  # nobody reads it
        pass
