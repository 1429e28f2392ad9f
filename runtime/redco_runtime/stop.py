"""Signals: whichever process gets one, all of them save the same step and leave."""

import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
from jax.experimental import multihost_utils

from redco_runtime.errors import UserError
from redco_runtime.progress import PROGRESS

INTERRUPTED = 130  # exit code of a shell for what Ctrl-C ended


class Stopped(UserError):  # noqa: N818 (it is no error)
    """A signal ended the run early; what it did is saved."""

    code, kind = 75, "stopped"  # EX_TEMPFAIL of sysexits.h: the same command goes on
    together = True


class Stop(AbstractContextManager["Stop"]):
    """From `with` on signals ask the run to stop; a second Ctrl-C ends it at once.

    They are SIGTERM, SIGHUP and Ctrl-C.

    Where there are several processes, JAX's preemption service catches SIGTERM and lets all of them
    agree on the step; the other signals are sent on to it.
    """

    def __init__(self) -> None:
        self._several = jax.process_count() > 1
        self.heard = threading.Event()  # a signal came to this process
        self._calls = 0
        self._agreed = False

    def __call__(self) -> bool:
        """Return whether to stop here; once true, it stays. All processes ask equally often."""
        self._calls += 1
        if self._several:
            if multihost_utils.reached_preemption_sync_point(self._calls):
                drop_lost_output()  # JAX has the signal: of a launcher, say, that is gone
                self._agreed = True
        return self._agreed or (not self._several and self.heard.is_set())

    def __enter__(self) -> "Stop":
        PROGRESS.at("its first step")
        self._before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is not threading.main_thread():
            return self  # which alone can have handlers: whoever runs it in a thread stops it
        ours = [signal.SIGINT, signal.SIGHUP, *([] if self._several else [signal.SIGTERM])]
        # Not those that nohup and the like have switched off.
        ours = [number for number in ours if signal.getsignal(number) != signal.SIG_IGN]
        self._before |= {number: signal.signal(number, _wait) for number in ours}
        if not self._before:
            return self
        # A handler of Python's runs between two lines of it, which a step on the devices holds up: so
        # a thread is told of each signal as it comes.
        self._ears, self._mouth = socket.socketpair()
        self._mouth.setblocking(False)
        self._fd = signal.set_wakeup_fd(self._mouth.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._listen, args=[self._ears], daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        PROGRESS.at("its end")
        if self._before:
            signal.set_wakeup_fd(self._fd)
            for number, handler in self._before.items():
                signal.signal(number, handler)
            self._mouth.close()

    def _listen(self, ears: socket.socket) -> None:
        interrupts = 0
        with ears:
            while numbers := ears.recv(1):
                number = numbers[0]
                interrupts += number == signal.SIGINT
                if interrupts > 1:
                    print("stopped at once: what was saved before is whole", file=sys.stderr)
                    os._exit(INTERRUPTED)
                if number in self._before:
                    drop_lost_output()
                    name = signal.Signals(number).name
                    print(f"{name}: saving after this step, then stopping", file=sys.stderr)
                    self.heard.set()
                    if self._several:
                        os.kill(os.getpid(), signal.SIGTERM)


def drop_lost_output(outputs: Sequence[int] = (1, 2)) -> None:
    """Make output go nowhere that nobody reads any more: a lost terminal or connection ends no save."""
    for number in outputs:
        watch = select.poll()
        watch.register(number, 0)  # for errors alone
        if watch.poll(0):
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), number)


def _wait(*_: object) -> None:
    """Leave a signal, as its handler, to the thread."""
