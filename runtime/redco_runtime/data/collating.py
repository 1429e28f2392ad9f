"""Batches on the host: what collate makes of examples, or where and why it is no batch."""

import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..base.examples import Arrays, Example, Redrawn
from ..base.errors import UserError, few

Collate = Callable[[list[Example]], Arrays]
Layout = dict[str, tuple[tuple[int, ...], np.dtype]]  # array -> (its dims but the first, its dtype)


def collate_examples(
    examples: Sequence[Example],
    collate: Collate,
    indices: Sequence[int],
    passes: Sequence[int] = (),
) -> Arrays:
    """Return what `collate` makes of these examples: arrays of numbers, a row for each.

    passes: the number of the pass of each, of Redrawn; none: as in the first.
    Raises UserError for what is no such batch, or cannot be made, naming the example that is to blame.
    """
    indices = [int(index) for index in indices]
    numbers = [int(number) for number in passes] or [0] * len(indices)
    try:
        arrays = {
            name: np.asarray(value)
            for name, value in collate(
                [_take(examples, *pair) for pair in zip(indices, numbers, strict=True)]
            ).items()
        }
    except Exception as error:
        if len(indices) > 1:
            _find(examples, collate, indices, numbers)
        raise _fault(collate, indices, f"failed: {type(error).__name__}: {error}", error) from error
    for name, array in arrays.items():
        if array.dtype.kind in "OSUmM":
            raise _fault(
                collate, indices, f"gave {name} the dtype {array.dtype}, which no device has"
            )
        if array.shape[:1] != (len(indices),):
            raise _fault(
                collate,
                indices,
                f"gave {name} the shape {array.shape}, whose first dim is not {len(indices)}",
            )
    return arrays


def _take(examples: Sequence[Example], index: int, number: int) -> Example:
    """Return an example, as in its pass `number` where something of it is drawn."""
    return examples.take(index, number) if isinstance(examples, Redrawn) else examples[index]


def layout_of(arrays: Arrays) -> Layout:
    """Return what must be the same in all batches of a run, for which its step is compiled."""
    return {name: (array.shape[1:], array.dtype) for name, array in arrays.items()}


def check_layout(
    arrays: Arrays,
    before: Layout,
    examples: Sequence[Example],
    collate: Collate,
    indices: Sequence[int],
    passes: Sequence[int],
) -> None:
    """Raise UserError where a batch is laid out otherwise than those before, of these examples."""
    if layout_of(arrays) != before:
        _find(examples, collate, indices, passes, before)
        _compare(arrays, before, collate, indices)


def _find(
    examples: Sequence[Example],
    collate: Collate,
    indices: Sequence[int],
    passes: Sequence[int],
    layout: Layout | None = None,
) -> None:
    """Raise UserError for the example that fails alone, or is laid out unlike `layout`, or else unlike most."""
    alone = [
        collate_examples(examples, collate, [index], [number])
        for index, number in zip(indices, passes, strict=True)
    ]
    layouts = [layout_of(arrays) for arrays in alone]
    usual = layout or max(layouts, key=layouts.count)
    for index, arrays in zip(indices, alone, strict=True):
        _compare(arrays, usual, collate, [index])


def _compare(arrays: Arrays, usual: Layout, collate: Collate, indices: Sequence[int]) -> None:
    now = layout_of(arrays)
    for name in sorted(now.keys() | usual.keys()):
        if now.get(name) != usual.get(name):
            here, there = (_describe(layout.get(name)) for layout in (now, usual))
            raise _fault(
                collate,
                indices,
                f"gave {name} {here} for each, and {there} for others: pad or cut all to one shape, of one dtype",
            )


@contextmanager
def asked_of(batch: Mapping[str, Any]) -> Iterator[None]:
    """Raise UserError where a function of pipeline.py asks a batch for what it has not."""
    try:
        yield
    except KeyError as error:
        *_, frame = traceback.extract_tb(error.__traceback__)
        (name,) = error.args or ("",)
        if name in batch or Path(frame.filename).name != "pipeline.py":
            raise
        raise UserError(
            f"{frame.filename}:{frame.lineno}: asks a batch for {name!r}, and it has {few(batch)}: give each example one, "
            "in examples()"
        ) from error


def _describe(kind: tuple[tuple[int, ...], np.dtype] | None) -> str:
    return "nothing" if kind is None else f"{kind[1]}{list(kind[0])}"


def _fault(
    collate: Collate, indices: Sequence[int], what: str, error: Exception | None = None
) -> UserError:
    """Return the error that names the examples and the line of the user's own file."""
    return UserError(
        f"collate {what}\nof example {few(indices, 16)}, at {_place(collate, error)}: mend it there, or leave "
        "the example out in examples()"
    )


def _place(collate: Collate, error: Exception | None) -> str:
    """Return file:line of collate, or of the last line that an error went through beside its file."""
    try:
        file, line = inspect.getsourcefile(collate) or "", inspect.getsourcelines(collate)[1]
    except (OSError, TypeError):  # no function of a file, such as a partial
        return repr(collate)
    frames = traceback.extract_tb(error.__traceback__) if error else []
    beside = [f for f in frames if Path(f.filename).is_relative_to(Path(file).parent)]
    return f"{beside[-1].filename}:{beside[-1].lineno}" if beside else f"{file}:{line}"
