"""The best checkpoint of a run by each of some scores, and its end where there comes no better one.

More is better of all scores but "loss".
"""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import jax

from ..base.messages import UserError, print_once, writing
from ..base.files import remove_tree
from ..base.state import PyTree, TrainState
from ..base.together import of_first, wait_for_all
from ..run.record import Run
from .checkpoint import Checkpoints

LOSS = "loss"  # of held-out examples: what a run has without evaluate()


def keep_best(
    folder: Path,
    names: tuple[str, ...],
    scores: Mapping[str, float],
    step: int,
    state: TrainState,
    shapes: PyTree = None,
) -> list[str]:
    """Save `state` for each of `names` that has its best score so far; return those names.

    The state is <folder>/<name>/<step>, and <folder>/<name>.json has the step and the score, which a
    run that goes on is measured by. Returns when all is written. Raises UserError for a name without
    a score, and as `Checkpoints.save`.
    shapes: as `Checkpoints` has them.
    """
    check_names(names, scores)
    sign = {name: -1 if name == LOSS else 1 for name in names}
    gains = {name: sign[name] * (scores[name] - read_best(folder, name)[1]) for name in names}
    better = [name for name in names if _agreed(gains[name] > 0)]
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


def check_names(names: Iterable[str], scores: Iterable[str]) -> None:
    """Raise UserError for a name without a score."""
    for name in names:
        if name not in scores:
            raise UserError(
                f"--best: no score is called {name}: choose some of {', '.join(scores)}"
            )


def patience_is_over(run: Run, step: int) -> bool:
    """Return whether a run ends at `step`, as its last --patience evaluations had no better first score of --best.

    Says so, if it does. All processes of a run that has both call it.
    """
    settings = run.config.train
    name, every, patience = settings.best[0], settings.eval_every, settings.patience
    best, score = read_best(run.best, name)
    if over := _agreed(step // every - best // every >= patience):
        print_once(
            f"{name} got no better than {score:.6g} of step {best} for --patience {patience}: "
            f"--best {name} of predict and export takes that step"
        )
    return over


def read_best(folder: Path, name: str) -> tuple[int, float]:
    """Return (the step, the score) that is the best so far, the worst before the first one. Raises UserError if it is damaged."""
    path = folder / f"{name}.json"
    try:
        record = json.loads(path.read_text())
        return int(record["step"]), float(record[name])
    except FileNotFoundError:
        return 0, math.inf if name == LOSS else -math.inf
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: no score in it: {error!r}; delete it to start anew") from None


def _agreed(value: bool) -> bool:
    """Return what process 0 says: the others may see its files late."""
    return bool(of_first("the best score", lambda: value))


def _clear_later(folder: Path, step: int) -> None:
    """Remove checkpoints of later steps, left by a run that was stopped after it saved them."""
    if jax.process_index() == 0:
        for path in folder.glob("*"):
            if path.name.isdecimal() and int(path.name) > step:
                remove_tree(path)
    wait_for_all("later checkpoints to be cleared")
