"""Trackers of experiments, for --log: TensorBoard, Weights & Biases, trackio."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ..base.messages import UserError
from ..base.files import is_bucket, read_lines
from ..run.history import FILE
from ..run.record import Run
from .metrics import Logger, Values

# The package that each needs, as pip has it: none is required.
PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb", "trackio": "trackio"}


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


TRACKERS: dict[str, Callable[[Run, int], Logger]] = {
    "tensorboard": TensorBoard,
    "wandb": open_wandb,
    "trackio": open_trackio,
}


def check_installed(name: str) -> None:
    """Raise UserError for a tracker whose package is not there."""
    # A folder of that name, where W&B has written its runs, is a package without a file of its own.
    if getattr(find_spec(PACKAGES[name]), "origin", None) is None:
        raise UserError(f"--log {name}: it is not installed: pip install {PACKAGES[name]}")


def run_id(workdir: Path) -> str:
    """Return what the run of a work folder is called, through all of its starts."""
    return str(read_lines(workdir / FILE)[0]["id"])
