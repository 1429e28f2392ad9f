"""Numbers of classes: that of a label of a row, by its name, and how often each is there."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.messages import announce, announce_training, few, shown


def number_of(label: Any, labels: Sequence[str], named: str = "--labels") -> int:
    """Return the place of a label among all: by its name, or, unless all names are numbers, a number that is its place.

    Raises ValueError for what is neither, and for the name of one label that is the place of another.
    """
    if hasattr(label, "names"):  # a ClassNumber of class_columns.py
        return _number_of_class(label, labels, named)
    name, places = str(label) if type(label) is int else label, range(len(labels))
    by_name = labels.index(name) if name in labels else None
    if type(label) is not int or label not in places or all(map(_is_number, labels)):
        at = by_name
    elif by_name in (None, label):
        at = label
    else:
        both = f"{label}, the name of one label and the place of {labels[label]!r}"
        raise ValueError(f"has the label {both}: write names, or leave numbers out of {named}")
    if at is None:
        or_places = "" if any(map(_is_number, labels)) else f", or 0 to {len(labels) - 1}"
        names = f"{few(labels)}{or_places}"
        todo = f"train takes others by {named}"
        raise ValueError(f"has the label {shown(label)}, and {named} are {names}: {todo}")
    return at


def _number_of_class(label: Any, labels: Sequence[str], named: str) -> int:
    if not 0 <= label < len(label.names):
        raise ValueError(f"has the label {int(label)}, and its classes are {few(label.names)}")
    place = _places(label.names, tuple(labels), named)[label]
    if place is None:
        name = shown(label.names[label])
        raise ValueError(f"has the label {name}, and {named} are {few(labels)}")
    return place


@functools.cache
def _places(there: tuple[str, ...], labels: tuple[str, ...], named: str) -> list[int | None]:
    """Return the place among labels of each class that a table names: None for none, by its name.

    Where all names are others, and as many, they are those of the classes in order, which is said.
    """
    if len(there) == len(labels) and not {*there} & {*labels}:
        pairs = few(f"{one} is {name}" for one, name in zip(there, labels, strict=True))
        announce(f"{named}: other names of the classes, in order: {pairs}")
        return [*range(len(there))]
    return [labels.index(name) if name in labels else None for name in there]


def say_rare(count: Mapping[str, int]) -> None:
    """Print which labels are there once, or never. count: how often each is there."""
    for number, why in (
        (1, "which is learned or scored, and never both"),
        (0, "which none learns"),
    ):
        if names := [name for name, n in count.items() if n == number]:
            announce_training(f"labels: of {['none', 'one'][number]}, {why}: {few(names)}")


def _is_number(name: str) -> bool:
    return name.removeprefix("-").isdecimal()
