"""What rows have: a text and its label, or words with a label each."""

from collections.abc import Sequence
from typing import Any

from ...base.messages import few, shown
from ..class_numbers import number_of

Fields = Sequence[
    str
]  # of a row: that of the text or of the words, that of the label or of the labels


def read_text(row: Any, fields: Fields, labels: Sequence[str]) -> tuple[str, list[int]]:
    """Return the text of a row, and the number of its label. Raises ValueError, which says why it has none."""
    text, label = _values(row, fields)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"has {shown(text)} in {fields[0]!r}, and no text")
    return text, [number_of(label, labels)]


def read_words(row: Any, fields: Fields, labels: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return the words of a row, and the numbers of their labels. Raises ValueError."""
    words, own = _values(row, fields)
    for field, value in zip(fields, (words, own), strict=True):
        if not isinstance(value, list) or not value:
            raise ValueError(f"has {shown(value)} in {field!r}, and no list")
    if len(words) != len(own):
        raise ValueError(f"has {len(words)} {fields[0]} and {len(own)} {fields[1]}")
    for word in words:
        if not isinstance(word, str) or not word.strip():
            raise ValueError(f"has {shown(word)} in {fields[0]!r}, and no word")
    return words, [number_of(label, labels) for label in own]


def _values(row: Any, fields: Fields) -> list[Any]:
    if not isinstance(row, dict):
        raise ValueError(f"is no object: {shown(row)}")
    if absent := [field for field in fields if field not in row]:
        todo = "--text-field and --label-field name others"
        raise ValueError(f"has {few(row) or 'nothing'}, and no {absent[0]!r}: {todo}")
    return [row[field] for field in fields]
