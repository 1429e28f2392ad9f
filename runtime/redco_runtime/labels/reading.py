"""What rows have: a text and its label, or words with a label each."""

import json
from collections.abc import Sequence
from typing import Any

from redco_runtime.errors import few

Fields = Sequence[
    str
]  # of a row: that of the text or of the words, that of the label or of the labels


def read_text(row: Any, fields: Fields, labels: Sequence[str]) -> tuple[str, list[int]]:
    """Return the text of a row, and the number of its label. Raises ValueError, which says why it has none."""
    text, label = _values(row, fields)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"has {json.dumps(text)[:40]} in {fields[0]!r}, and no text")
    return text, [_number(label, labels)]


def read_words(row: Any, fields: Fields, labels: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return the words of a row, and the numbers of their labels. Raises ValueError."""
    words, own = _values(row, fields)
    for field, value in zip(fields, (words, own), strict=True):
        if not isinstance(value, list) or not value:
            raise ValueError(f"has {json.dumps(value)[:40]} in {field!r}, and no list")
    if len(words) != len(own):
        raise ValueError(f"has {len(words)} {fields[0]} and {len(own)} {fields[1]}")
    for word in words:
        if not isinstance(word, str) or not word.strip():
            raise ValueError(f"has {json.dumps(word)[:40]} in {fields[0]!r}, and no word")
    return words, [_number(label, labels) for label in own]


def _values(row: Any, fields: Fields) -> list[Any]:
    if not isinstance(row, dict):
        raise ValueError(f"is no object: {json.dumps(row)[:40]}")
    if absent := [field for field in fields if field not in row]:
        todo = "--text-field and --label-field name others"
        raise ValueError(f"has {few(row) or 'nothing'}, and no {absent[0]!r}: {todo}")
    return [row[field] for field in fields]


def _number(label: Any, labels: Sequence[str]) -> int:
    """Return the place of a label among all: by its name, or, unless all names are numbers, a number that is its place.

    Raises ValueError for what is neither, and for the name of one label that is the place of another.
    """
    by_name, places = str(label) if type(label) is int else label, range(len(labels))
    named = labels.index(by_name) if by_name in labels else None
    if type(label) is not int or label not in places or all(map(_is_number, labels)):
        at = named
    elif named in (None, label):
        at = label
    else:
        both = f"{label}, the name of one label and the place of {labels[label]!r}"
        raise ValueError(f"has the label {both}: write names, or leave numbers out of --labels")
    if at is None:
        or_places = "" if any(map(_is_number, labels)) else f", or 0 to {len(labels) - 1}"
        shown = f"{few(labels)}{or_places}"
        raise ValueError(f"has the label {json.dumps(label)[:40]}, and --labels are {shown}")
    return at


def _is_number(name: str) -> bool:
    return name.removeprefix("-").isdecimal()
