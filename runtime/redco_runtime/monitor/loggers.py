"""Loggers by name, for --log: where the numbers of a run and its samples go besides its own files."""

from collections.abc import Callable, Mapping
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any

import jax

from ..base.errors import UserError
from ..base.features import feature
from ..base.output import print_once
from ..run.record import Run

Values = Mapping[str, float | str]  # numbers, and texts, by name
Logger = Callable[[int, Values], None]  # of the step; what is to be done at the end is its `close`

PATIENCE = 10.0  # seconds for what is left at the end: after a signal all have to leave within 15

TRACKERS = ("tensorboard", "wandb", "trackio")  # that trackers.py has, where they were asked for


class Loggers(list[Logger]):
    """Calls loggers in a thread of their own: none can fail a run, or hold it up.

    say: prints a line, of one that raises, which is left out from there on.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._queue = say, SimpleQueue[tuple[int, Values] | None]()
        self._thread = Thread(target=self._run, daemon=True)

    def tell(self, step: int, values: Values) -> None:
        """Take what is to be logged, and return at once."""
        if self and not self._thread.is_alive():
            self._thread.start()
        self._queue.put((step, values))

    def close(self) -> None:
        """Wait until all is logged, for a while."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(PATIENCE)
        if self._thread.is_alive():
            late = f"loggers have not ended within {PATIENCE:.0f} s"
            self._say(f"note: {late}; the run does not wait")

    def _run(self) -> None:
        while item := self._queue.get():
            for logger in [*self]:
                self._try(logger, partial(logger, *item))
        for logger in [*self]:
            self._try(logger, getattr(logger, "close", lambda: None))

    def _try(self, logger: Logger, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            self.remove(logger)
            name = getattr(logger, "__name__", type(logger).__name__)
            self._say(f"note: logger {name} failed: {error!r}; the run goes on without it")


# name -> what opens it for a run that goes on after step `start`, in process 0, beside those of trackers.py. Add
# your own in config.py: LOGGERS["mine"] = lambda run, start: lambda step, values: print(step, values)
LOGGERS: dict[str, Callable[[Run, int], Logger]] = {}


def check_loggers(names: tuple[str, ...]) -> None:
    """Raise UserError for one that there is not, or that is not installed."""
    for name in names:
        if name not in (*LOGGERS, *TRACKERS):
            todo = f"choose some of {', '.join((*LOGGERS, *TRACKERS))}"
            raise UserError(f"--log: no logger is called {name}: {todo}")
        if name not in LOGGERS:
            _trackers(name).check_installed(name)


def open_loggers(run: Run, start: int) -> list[Logger]:
    """Return those that --log names, in process 0. One that fails is a line, and no logger."""
    loggers = []
    for name in run.config.train.log if jax.process_index() == 0 else ():
        try:
            own = LOGGERS.get(name) or _trackers(name).TRACKERS[name]
            loggers.append(own(run, start))
        except Exception as error:
            print_once(f"note: --log {name} failed: {error!r}; the run goes on without it")
    return loggers


def _trackers(name: str) -> Any:
    return feature("trackers", "monitor.trackers", f"--log {name}")
