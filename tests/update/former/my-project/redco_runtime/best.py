"""The best checkpoint of a run by each of some scores, of which more is better."""

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from redco_runtime.checkpoint import Checkpoints
from redco_runtime.errors import UserError, writing
from redco_runtime.state import TrainState


def keep_best(
    folder: Path,
    names: tuple[str, ...],
    scores: Mapping[str, float],
    step: int,
    state: TrainState,
    shapes: Any = None,
) -> list[str]:
    """Which of `names` have their best score so far: for each, `state` is now <folder>/<name>/<step>.

    <folder>/<name>.json has the step and the score, which a run that goes on is measured by. Returns
    when all is written. shapes: as `Checkpoints` has them. Raises UserError for a name without a
    score, and as `Checkpoints.save`.
    """
    for name in names:
        if name not in scores:
            raise UserError(
                f"--best: no score is called {name}: choose some of {', '.join(scores)}"
            )
    better = [name for name in names if _agreed(scores[name] > best_score(folder, name))]
    for name in better:
        _clear_later(folder / name, step)
        with Checkpoints(folder / name, keep=1, shapes=shapes) as checkpoints:
            checkpoints.save(step, state)
        if jax.process_index() == 0:
            path = folder / f"{name}.json"
            with writing(path):
                path.with_suffix(".tmp").write_text(json.dumps({"step": step, name: scores[name]}))
                path.with_suffix(".tmp").replace(path)
    return better


def best_score(folder: Path, name: str) -> float:
    """The best score so far; -inf before the first one. Raises UserError where it is damaged."""
    path = folder / f"{name}.json"
    try:
        return float(json.loads(path.read_text())[name])
    except FileNotFoundError:
        return -math.inf
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: no score in it: {error!r}; delete it to start anew") from None


def _agreed(value: bool) -> bool:
    """What process 0 says: the others may see its files late."""
    return bool(multihost_utils.broadcast_one_to_all(np.bool_(value)))


def _clear_later(folder: Path, step: int) -> None:
    """Removes checkpoints of later steps, left by a run that was stopped after it saved them."""
    if jax.process_index() == 0:
        for path in folder.glob("*"):
            if path.name.isdecimal() and int(path.name) > step:
                shutil.rmtree(path)
    multihost_utils.sync_global_devices("later checkpoints are cleared")
