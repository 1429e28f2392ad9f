"""Columns of tables whose numbers are those of classes with names: the ClassLabel of datasets."""

from collections.abc import Mapping
from typing import Any

from ..base.files import parse_json


class ClassNumber(int):
    """The number of a class in a column whose classes have names. -1: of none.

    names: of all of them.
    """

    names: tuple[str, ...]

    def __new__(cls, number: int, names: tuple[str, ...]) -> "ClassNumber":
        own = super().__new__(cls, number)
        own.names = names
        return own


def class_columns(metadata: Mapping[bytes, bytes] | None) -> dict[str, tuple[str, ...]]:
    """Return column -> the names of its classes, by what datasets says of a table; of lists, those of their items."""
    try:
        columns = parse_json((metadata or {})[b"huggingface"])["info"]["features"].items()
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}
    kinds = ((name, *kind) if isinstance(kind, list) else (name, kind) for name, kind in columns)
    named: dict[str, tuple[str, ...]] = {}
    for name, kind, *_ in kinds:
        kind = kind.get("feature", kind) if isinstance(kind, dict) else {}
        names = kind.get("names") if isinstance(kind, dict) else None
        if isinstance(names, list) and names:
            named[name] = tuple(map(str, names))
    return named


def with_classes(row: dict[str, Any], columns: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return a row whose numbers of classes, or lists of them, know their names."""

    def named(value: Any, names: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [named(item, names) for item in value]
        return ClassNumber(value, names) if type(value) is int else value

    return row | {k: named(row[k], names) for k, names in columns.items() if k in row}
