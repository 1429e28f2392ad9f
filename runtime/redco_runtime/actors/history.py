"""The last rounds of rollouts in the work folder: what a run that is stopped within one goes on with."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np

from ..base.messages import writing
from ..base.files import remove_tree
from ..base.together import decide
from .rollouts import Row


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
