"""Loggers by name, for --log: where the numbers of a run and its samples go besides its own files."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from queue import SimpleQueue
from threading import Thread

import jax

from ..base.errors import UserError
from ..base.output import print_once
from ..base.paths import is_bucket
from ..run.history import run_id
from ..run.record import Run

Values = Mapping[str, float | str]  # numbers, and texts, by name
Logger = Callable[[int, Values], None]  # of the step; what is to be done at the end is its `close`

PATIENCE = 10.0  # seconds for what is left at the end: after a signal all have to leave within 15

# The package that each needs, as pip has it: none is required.
PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb", "trackio": "trackio"}


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


class TensorBoard:
    """Writes event files to the folder tensorboard of the work folder."""

    def __init__(self, run: Run, start: int) -> None:
        from tensorboardX import SummaryWriter

        # Steps after `start` are those of a run that was stopped: TensorBoard is told to drop them.
        folder = str(run.workdir / "tensorboard")
        self._writer = SummaryWriter(folder, purge_step=start + 1, flush_secs=10)

    def __call__(self, step: int, values: Values) -> None:
        for name, value in values.items():
            if isinstance(value, str):
                self._writer.add_text(name, value, step)
            else:
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class Tracker:
    """Logs to what has the calls of W&B: one run for all starts, by the id of the work folder."""

    def __init__(self, package: str, run: Run, **options: str) -> None:
        project = type(run.config).__module__.partition(".")[0]
        options |= {"project": project, "resume": "allow"}
        self._run = import_module(package).init(config=run.record(), **options)

    def __call__(self, step: int, values: Values) -> None:
        self._run.log({**values}, step=step)

    def close(self) -> None:
        """End its run, and send what is left."""
        self._run.finish()


def open_wandb(run: Run, start: int) -> Logger:
    """Return the logger of Weights & Biases; its variables, such as WANDB_MODE, hold."""
    own = {} if is_bucket(run.workdir) else {"dir": str(run.workdir)}
    return Tracker("wandb", run, id=run_id(run.workdir), name=run.workdir.absolute().name, **own)


def open_trackio(run: Run, start: int) -> Logger:
    """Return the logger of trackio, which knows a run by its name."""
    return Tracker("trackio", run, name=f"{run.workdir.absolute().name}-{run_id(run.workdir)}")


# name -> what opens it for a run that goes on after step `start`, in process 0. Add your own in config.py:
# LOGGERS["mine"] = lambda run, start: lambda step, values: print(step, values)
LOGGERS: dict[str, Callable[[Run, int], Logger]] = {
    "tensorboard": TensorBoard,
    "wandb": open_wandb,
    "trackio": open_trackio,
}


def check_loggers(names: tuple[str, ...]) -> None:
    """Raise UserError for one that there is not, or that is not installed."""
    for name in names:
        if name not in LOGGERS:
            todo = f"choose some of {', '.join(LOGGERS)}"
            raise UserError(f"--log: no logger is called {name}: {todo}")
        package = PACKAGES.get(name)
        # A folder of that name, where W&B has written its runs, is a package without a file of its own.
        if package and getattr(find_spec(package), "origin", None) is None:
            raise UserError(f"--log {name}: it is not installed: pip install {package}")


def open_loggers(run: Run, start: int) -> list[Logger]:
    """Return those that --log names, in process 0. One that fails is a line, and no logger."""
    loggers = []
    for name in run.config.train.log if jax.process_index() == 0 else ():
        try:
            loggers.append(LOGGERS[name](run, start))
        except Exception as error:
            print_once(f"note: --log {name} failed: {error!r}; the run goes on without it")
    return loggers
