"""Entities: what labels of words such as B-PER, I-PER and O make up, and how well they are predicted."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from ..class_report import ClassReport

OUTSIDE = "O"
Span = tuple[str, int, int]  # what it is, its first word, and the word behind its last


def entities(labels: Sequence[str]) -> list[Span]:
    """Return the entities of words, as the script of CoNLL-2000 and seqeval read them by default.

    B-x and S-x begin one; I-x, E-x, or x alone, goes on with one of the same kind that no E-x or S-x has ended,
    and else begins one; O is none. What is behind the first hyphen is the kind.
    """
    spans = list[Span]()
    open_kind = OUTSIDE  # of the entity that may go on
    for at, label in enumerate(labels):
        tag, kind = (label[0], label[2:]) if label[1:2] == "-" else ("I", label)
        if label != OUTSIDE and tag not in "BS" and open_kind == kind:
            name, start, _ = spans[-1]
            spans[-1] = (name, start, at + 1)
        elif label != OUTSIDE:
            spans.append((kind, at, at + 1))
        open_kind = OUTSIDE if label == OUTSIDE or tag in "ES" else kind
    return spans


def entity_f1(expected: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> float:
    """Return F1 of all entities of some texts, micro-averaged: right are those of the same kind and words."""
    report = report_entities(expected, predicted)
    right, ours, theirs = (int(x.sum()) for x in (report.right, report.predicted, report.expected))
    return 2 * right / max(ours + theirs, 1)


def report_entities(
    expected: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]
) -> ClassReport:
    """Return how well the entities of each kind are predicted, those of some texts."""
    right, ours, theirs = Counter[str](), Counter[str](), Counter[str]()
    for one, other in zip(expected, predicted, strict=True):
        spans, guesses = {*entities(one)}, {*entities(other)}
        for counter, some in ((right, spans & guesses), (ours, guesses), (theirs, spans)):
            counter.update(kind for kind, _, _ in some)
    kinds = sorted({*ours, *theirs})
    numbers = [
        np.array([counter[kind] for kind in kinds], int) for counter in (right, ours, theirs)
    ]
    return ClassReport(kinds, *numbers)
