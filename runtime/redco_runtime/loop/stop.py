"""Signals: whichever process gets one, all of them save the same step and leave."""

import os
import select
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager

import jax
from jax.experimental import multihost_utils

from ..base.messages import UserError
from ..base.interrupts import INTERRUPTED, Ears
from ..base.progress import PROGRESS
from ..monitor.events import EVENTS


class Stopped(UserError):  # noqa: N818 (it is no error)
    """A signal ended the run early; what it did is saved."""

    code, kind = 75, "stopped"  # EX_TEMPFAIL of sysexits.h: the same command goes on
    together = True


class Stop(AbstractContextManager["Stop"]):
    """From `with` on signals ask the run to stop; a second Ctrl-C, a second later or more, ends it at once.

    They are SIGTERM, SIGHUP and Ctrl-C.

    Where there are several processes, JAX's preemption service catches SIGTERM and lets all of them
    agree on the step; the other signals are sent on to it.
    """

    def __init__(self) -> None:
        self._several = jax.process_count() > 1
        self.heard = threading.Event()  # a signal came to this process
        self._calls = 0
        self._agreed, self._interrupted = False, False
        # A handler of Python's runs between two lines of it, which a step on the devices holds up.
        ours = [signal.SIGINT, signal.SIGHUP, *([] if self._several else [signal.SIGTERM])]
        self._ears = Ears(ours, self._hear)

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
        self._ears.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        PROGRESS.at("its end")
        self._ears.__exit__()

    def _hear(self, number: int) -> None:
        drop_lost_output()
        if number == signal.SIGINT and self._interrupted:
            message = "stopped at once: what was saved before is whole"
            print(message, file=sys.stderr)
            EVENTS.end("signal", message)
            os._exit(INTERRUPTED)
        self._interrupted |= number == signal.SIGINT
        name = signal.Signals(number).name
        print(f"{name}: saving after this step, then stopping", file=sys.stderr)
        self.heard.set()
        if self._several:
            os.kill(os.getpid(), signal.SIGTERM)


def drop_lost_output(outputs: Sequence[int] = ()) -> None:
    """Make output go nowhere that nobody reads any more: a lost terminal or connection ends no save."""
    for number in outputs or (sys.stdout.fileno(), sys.stderr.fileno()):
        watch = select.poll()
        watch.register(number, 0)  # for errors alone
        if watch.poll(0):
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), number)
