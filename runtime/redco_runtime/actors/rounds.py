"""The batches of a run whose model makes its own examples, a round of steps after the other; and the last rounds in the work folder.

What a run that is stopped within a round goes on with lies there.
"""

import zipfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np

from ..base.contracts import Batch, Counted, Steps
from ..base.examples import Arrays, Example
from ..base.files import remove_tree
from ..base.messages import UserError, writing
from ..base.progress import PROGRESS
from ..base.state import TrainState
from ..base.together import decide
from ..data.batches import batch_indices, to_global
from ..data.collating import Largest, check_ids, collate_examples, largest_numbers
from ..run.check_settings import check_hooks
from ..run.record import Run
from .playing import Actor, Row, roll_out


class Rounds(Iterator[Batch]):
    """The global batches of the steps from where `state` is, made as they are asked for.

    A round is `train.round_steps` steps. It begins with a rollout of `batch_size` examples, with the parameters
    of that moment: a pure function of these, the seed and the number of the round. Each process has the rows
    that its devices hold. The rounds that are learned from lie in the work folder, so that a run that is
    stopped within one goes on with the same rows. Where they are gone, they are played anew.
    unit, count, position, step, indices: as of TrainBatches.
    """

    def __init__(
        self, examples: Sequence[Example], actor: Actor, steps: Steps, run: Run, state: TrainState
    ) -> None:
        check_hooks(actor, (Actor,))
        settings = run.config.train
        if settings.round_steps < 1:
            raise UserError("--round-steps: give a number above 0")
        replay = getattr(settings, "replay_rounds", 1)
        if replay < 1:
            raise UserError("--replay-rounds: give a number above 0")
        self._examples, self._actor, self._steps = examples, actor, steps
        self._config, self._settings, self._state = run.config, settings, state
        self._places = _places(steps, settings.batch_size)
        self._history = History(run.workdir / "rounds", self._places.tolist(), replay)
        self._rollouts = deque[list[Row]](maxlen=replay)
        self._minibatches: Iterator[list[Row]] | None = None
        self._next: Batch | None = None
        self._largest: Largest = {}
        self._tables: Mapping[str, int] = {}
        self.step = int(state.step)
        self.unit = actor.UNIT if isinstance(actor, Counted) else "examples"
        self.count, self.position = 0.0, None

    def follow(self, state: TrainState) -> None:
        """Act with the parameters of `state` from now on."""
        self._state = state

    def indices(self, step: int) -> np.ndarray:
        """Return the examples that the rollout before `step` (those before it, so from 0) is of."""
        settings, turn = self._settings, step // self._settings.round_steps
        return batch_indices(self._examples, settings.seed, turn, settings.batch_size)

    def keep_within(self, tables: Mapping[str, int]) -> None:
        """Refuse ids that `tables` have no row for, as TrainBatches does."""
        self.peek()
        self._tables = tables
        check_ids(self._largest, tables)

    def peek(self) -> Batch:
        """Return the next batch, which stays the next one."""
        if self._next is None:
            self._next = self._make(self.step)
        return self._next

    def __next__(self) -> Batch:
        if self.step >= self._settings.steps:
            raise StopIteration
        PROGRESS.at("the examples", self.step)
        batch, self._next = self.peek(), None
        PROGRESS.at("the devices", self.step)
        self.step += 1
        return batch

    def _make(self, step: int) -> Batch:
        done = step % self._settings.round_steps
        if self._minibatches is None or done == 0:
            self._minibatches = self._begin(step, done)
        if (rows := next(self._minibatches, None)) is None:
            raise UserError(
                f"minibatches() in pipeline.py: it ends after {done} of a round, and --round-steps is "
                f"{self._settings.round_steps}: let it go on, or give fewer"
            )

        def collate_rows(here: np.ndarray) -> Arrays:
            arrays = collate_examples(rows, self._actor.collate, range(len(rows)))
            self._largest = largest_numbers(arrays, np.arange(len(rows)))
            check_ids(self._largest, self._tables)
            if isinstance(self._actor, Counted):
                self.count += self._actor.count(arrays) * self._settings.batch_size / len(here)
            else:
                self.count += self._settings.batch_size
            return arrays

        return to_global(self._steps.batch, self._settings.batch_size, collate_rows)

    def _begin(self, step: int, done: int) -> Iterator[list[Row]]:
        """Return the minibatches of the round of `step`, but the first `done`."""
        turn = step // self._settings.round_steps
        if not self._rollouts:  # where a run goes on
            for before in range(max(0, turn - self._history.rounds + 1), turn):
                self._rollouts.append(self._history.read(before) or self._play(before))
        rows = self._history.read(turn) if done else None
        self._rollouts.append(rows or self._play(turn))
        rng = np.random.default_rng((self._settings.seed, turn))
        return islice(self._actor.minibatches(self._config, [*self._rollouts], rng), done, None)

    def _play(self, turn: int) -> list[Row]:
        settings = self._settings
        indices = self.indices(turn * settings.round_steps)[self._places]
        key = jax.random.fold_in(jax.random.key(settings.seed), turn)
        rows = roll_out(
            self._actor,
            self._config,
            self._steps,
            self._state.model,
            [self._examples[index] for index in indices.tolist()],
            self._places,
            settings.batch_size,
            key,
            explore=True,
        )
        self._history.write(turn, rows)
        return rows


def _places(steps: Steps, size: int) -> np.ndarray:
    """Return the rows of a batch of `size` that the devices of this process hold, ascending."""
    indices = steps.batch.addressable_devices_indices_map((size,)).values()
    return np.unique(np.concatenate([np.arange(size)[index] for index in indices]))


class History:
    """Rollouts by round and row: <folder>/<round>/<place of the row in the batch>.npz.

    places: of the rows that this process has.
    rounds: how many stay.
    """

    def __init__(self, folder: Path, places: Sequence[int], rounds: int) -> None:
        self.folder, self.places, self.rounds = folder, places, rounds

    def write(self, turn: int, rows: Sequence[Row]) -> None:
        """Write a round, and delete what is no longer learned from. Raises UserError where it cannot."""
        with writing(self.folder):
            (self.folder / str(turn)).mkdir(parents=True, exist_ok=True)
            for place, row in zip(self.places, rows, strict=True):
                path = self._path(turn, place)
                temporary = path.with_suffix(f".{jax.process_index()}.tmp")
                with temporary.open("wb") as file:
                    np.savez(file, **cast(Any, row))
                temporary.replace(path)
        remove_tree(self.folder / str(turn - self.rounds), missing=True)

    def read(self, turn: int) -> list[Row] | None:
        """Return the rows of a round; None, in all processes, where one of them lacks some of its own."""
        try:
            rows = [self._read(self._path(turn, place)) for place in self.places]
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            rows = []
        return rows if decide("rollouts", len(rows) == len(self.places), all) else None

    def _path(self, turn: int, place: int) -> Path:
        return self.folder / str(turn) / f"{place}.npz"

    def _read(self, path: Path) -> Row:
        with path.open("rb") as file, np.load(file) as arrays:
            return {name: arrays[name] for name in arrays.files}
