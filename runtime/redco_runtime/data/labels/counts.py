"""What is odd of rows with labels, for people: labels that few have, and rows that differ in nothing."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

import numpy as np

from ...base.examples import Arrays
from ...base.messages import announce_training, few
from ..class_numbers import say_rare

MOST = 50_000  # rows that are looked at, of those to train on and of the others: a second or two


def say_counts(train: Sequence[Arrays], held_out: Sequence[Arrays], labels: Sequence[str]) -> None:
    """Print how often each label is there, which have one or none, and how many rows are there twice."""
    (own, rows), (other, rest) = (_look(part, len(labels)) for part in (train, held_out))
    count = dict(zip(labels, (own + other).tolist(), strict=True))
    whole = len(train) + len(held_out) == rows.total() + rest.total()
    of_first = "" if whole else f", of the first {rows.total() + rest.total():,} rows"
    announce_training(f"labels: {few(f'{name} {n:,}' for name, n in count.items())}{of_first}")
    if whole:
        say_rare(count)
    twice = rows.total() + rest.total() - len(rows | rest)
    shared = sum(n for row, n in rest.items() if row in rows)
    if twice:
        leak = f"; {shared:,} of {rest.total():,} that are held out are trained on too"
        announce_training(
            f"data: {twice:,} rows{of_first} differ from another one in nothing{leak if shared else ''}"
        )


def _look(rows: Sequence[Arrays], labels: int) -> tuple[np.ndarray, Counter[bytes]]:
    """Return how often each label is there, and rows by all that they have, of the first MOST."""
    count, seen = np.zeros(labels, np.int64), Counter[bytes]()
    for row in islice(rows, MOST):
        marks = row["label"]
        count += np.bincount(marks[marks > 0] - 1, minlength=labels)
        seen[row["input_ids"][row["mask"]].tobytes() + marks.tobytes()] += 1
    return count, seen
