"""Batches on the host: what collate makes of examples, or where and why it is no batch."""

import inspect
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from redco_runtime.contracts import Arrays, Example
from redco_runtime.draws import Draws
from redco_runtime.errors import UserError, few

Collate = Callable[[list[Example]], Arrays]
Layout = dict[str, tuple[tuple[int, ...], np.dtype]]  # array -> (its dims but the first, its dtype)


def collate_examples(
    examples: Sequence[Example],
    collate: Collate,
    indices: Sequence[int],
    passes: Sequence[int] = (),
) -> Arrays:
    """Return what `collate` makes of these examples: arrays of numbers, a row for each.

    passes: the number of the pass of each, of Draws; none: as in the first.
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
            for index, number in zip(indices, numbers, strict=True):  # the one that fails alone
                collate_examples(examples, collate, [index], [number])
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
    return examples.take(index, number) if isinstance(examples, Draws) else examples[index]


def layout_of(arrays: Arrays) -> Layout:
    """Return what must be the same in all batches of a run, for which its step is compiled."""
    return {name: (array.shape[1:], array.dtype) for name, array in arrays.items()}


def check_layout(arrays: Arrays, before: Layout, collate: Collate, indices: Sequence[int]) -> None:
    """Raise UserError where a batch is laid out otherwise than those before."""
    now = layout_of(arrays)
    for name in sorted(now.keys() | before.keys()):
        if now.get(name) != before.get(name):
            here, there = (_describe(layout.get(name)) for layout in (now, before))
            raise _fault(
                collate,
                indices,
                f"gave {name} {here} for each, and {there} in the batches before: "
                "pad or cut all to one shape, of one dtype",
            )


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
