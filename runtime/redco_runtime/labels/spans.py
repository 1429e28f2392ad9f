"""Entities: what labels of words such as B-PER, I-PER and O make up, and how well they are predicted."""

from collections.abc import Iterable, Sequence

OUTSIDE = "O"
Span = tuple[str, int, int]  # what it is, its first word, and the word behind its last


def entities(labels: Sequence[str]) -> list[Span]:
    """Return the entities of words, as the script of CoNLL-2000 and seqeval read them by default.

    B-x begins one; I-x, or x alone, goes on with one of the same kind, and else begins one; O is none.
    """
    spans = list[Span]()
    before = OUTSIDE
    for at, label in enumerate(labels):
        begins, _, kind = label.rpartition("-")
        goes_on = begins != "B" and before == kind and label != OUTSIDE
        if goes_on:
            name, start, _ = spans[-1]
            spans[-1] = (name, start, at + 1)
        elif label != OUTSIDE:
            spans.append((kind, at, at + 1))
        before = OUTSIDE if label == OUTSIDE else kind
    return spans


def entity_f1(expected: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> float:
    """Return F1 of all entities of some texts, micro-averaged: right are those of the same kind and words."""
    right = ours = theirs = 0
    for one, other in zip(expected, predicted, strict=True):
        spans, guesses = {*entities(one)}, {*entities(other)}
        right, theirs, ours = right + len(spans & guesses), theirs + len(spans), ours + len(guesses)
    return 2 * right / max(ours + theirs, 1)
