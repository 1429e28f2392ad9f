"""Batches on the host: what collate makes of examples, or where and why it is no batch."""

import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from ..base.examples import Arrays, Example, Redrawn
from ..base.messages import UserError, few

Collate = Callable[[list[Example]], Arrays]
Largest = dict[str, tuple[int, int]]  # array -> (its largest number, the example that has it)
Layout = dict[str, tuple[tuple[int, ...], np.dtype]]  # array -> (its dims but the first, its dtype)


def collate_examples(
    examples: Sequence[Example],
    collate: Collate,
    indices: Sequence[int],
    passes: Sequence[int] = (),
    layout: Layout | None = None,
) -> Arrays:
    """Return what `collate` makes of these examples: arrays of numbers, a row for each.

    passes: the number of the pass of each, of Redrawn; none: as in the first.
    layout: of all batches of a run, for which its step is compiled; the first, which finds it {}, sets it.
    Raises UserError for what is no such batch, or cannot be made, naming the example that is to blame.
    """
    pairs = [(int(i), int(number)) for i, number in zip_longest(indices, passes, fillvalue=0)]
    batch = _Batch(examples, collate, pairs)
    arrays = batch.arrays()
    if layout is not None:
        now = _layout_of(arrays)
        layout.update(layout or now)
        if now != layout:
            batch.blame(layout)
            batch.compare(now, layout)
    return arrays


def largest_numbers(arrays: Arrays, indices: np.ndarray) -> Largest:
    """Return the largest number of each array of integers of a batch, of the examples with these indices."""
    numbers = {name: array for name, array in arrays.items() if array.dtype.kind in "iu"}
    places = {name: array.argmax() for name, array in numbers.items() if array.size}
    return {
        name: (int(numbers[name].flat[at]), int(indices[at * len(indices) // numbers[name].size]))
        for name, at in places.items()
    }


def check_ids(largest: Largest, tables: Mapping[str, int]) -> None:
    """Raise UserError for an id that has no row in the table of the model that it picks one of."""
    for name, rows in tables.items():
        number, example = largest.get(name, (-1, 0))
        if number >= rows:
            raise UserError(
                f"collate in pipeline.py gave {name} the id {number}, of example {example}, and the model's table of them has "
                f"{rows} rows: give ids below {rows}, as the model's own tokenizer does, or the model more rows"
            )


@dataclass(frozen=True)
class _Batch:
    """Some of the examples: (index, pass) of each."""

    examples: Sequence[Example]
    collate: Collate
    pairs: Sequence[tuple[int, int]]

    def arrays(self) -> Arrays:
        own = self.examples
        take = own.take if isinstance(own, Redrawn) else lambda index, _: own[index]
        try:
            rows = [take(*pair) for pair in self.pairs]
            arrays = {name: np.asarray(value) for name, value in self.collate(rows).items()}
        except Exception as error:
            if len(self.pairs) > 1:
                self.blame()
            raise self._fault(f"failed: {type(error).__name__}: {error}", error) from error
        for name, array in arrays.items():
            if array.dtype.kind in "OSUmM":
                raise self._fault(f"gave {name} the dtype {array.dtype}, which no device has")
            if array.shape[:1] != (len(self.pairs),):
                dim = f"whose first dim is not {len(self.pairs)}"
                raise self._fault(f"gave {name} the shape {array.shape}, {dim}")
        return arrays

    def blame(self, usual: Layout | None = None) -> None:
        """Raise UserError for the example that fails alone, or is laid out unlike `usual`, or else unlike most."""
        alone = [replace(self, pairs=[pair]) for pair in self.pairs]
        layouts = [_layout_of(one.arrays()) for one in alone]
        usual = usual or max(layouts, key=layouts.count)
        for one, layout in zip(alone, layouts, strict=True):
            one.compare(layout, usual)

    def compare(self, now: Layout, usual: Layout) -> None:
        """Raise UserError where the two differ."""
        for name in sorted(now.keys() | usual.keys()):
            if now.get(name) != usual.get(name):
                here, there = (_describe(layout.get(name)) for layout in (now, usual))
                todo = "pad or cut all to one shape, of one dtype"
                raise self._fault(f"gave {name} {here} for each, and {there} for others: {todo}")

    def _fault(self, what: str, error: Exception | None = None) -> UserError:
        """Return the error that names the examples and the line of the user's own file."""
        return UserError(
            f"collate {what}\nof example {few([i for i, _ in self.pairs], 16)}, at {_place(self.collate, error)}: mend it "
            "there, or leave the example out in examples()"
        )


@contextmanager
def asked_of(batch: Mapping[str, Any]) -> Iterator[None]:
    """Raise UserError where a function of pipeline.py asks a batch for what it has not.

    To what else is raised there of shapes and dtypes, those of the batch are added.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        arrays = ", ".join(f"{name} {x.dtype}{list(x.shape)}" for name, x in batch.items())
        error.add_note(f"The batch has {arrays}: see collate() and examples() in pipeline.py")
        raise
    except KeyError as error:
        *_, frame = traceback.extract_tb(error.__traceback__)
        (name,) = error.args or ("",)
        if name in batch or Path(frame.filename).name != "pipeline.py":
            raise
        raise UserError(
            f"{frame.filename}:{frame.lineno}: asks a batch for {name!r}, and it has {few(batch)}: give each example one, "
            "in examples()"
        ) from error


def _layout_of(arrays: Arrays) -> Layout:
    return {name: (array.shape[1:], array.dtype) for name, array in arrays.items()}


def _describe(kind: tuple[tuple[int, ...], np.dtype] | None) -> str:
    return "nothing" if kind is None else f"{kind[1]}{list(kind[0])}"


def _place(collate: Collate, error: Exception | None) -> str:
    """Return file:line of collate, or of the last line that an error went through beside its file."""
    try:
        file, line = inspect.getsourcefile(collate) or "", inspect.getsourcelines(collate)[1]
    except (OSError, TypeError):  # no function of a file, such as a partial
        return repr(collate)
    frames = traceback.extract_tb(error.__traceback__) if error else []
    beside = [f for f in frames if Path(f.filename).is_relative_to(Path(file).parent)]
    return f"{beside[-1].filename}:{beside[-1].lineno}" if beside else f"{file}:{line}"
