"""TOML as values, and a text of it with what another one changes, in its layout."""

import tomllib
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

_ABSENT = object()


def toml_values(text: str) -> Any:
    """Return what a text says: dicts, lists of texts, and (type, text) of any other value.

    Raises ValueError for what is no TOML.
    """
    return _typed(tomllib.loads(text))


def _typed(value: Any) -> Any:
    """Return a value of which True is not 1, and 1 is not 1.0."""
    if isinstance(value, dict):
        return {key: _typed(x) for key, x in value.items()}
    if isinstance(value, list):
        return [_typed(x) for x in value]
    return value if isinstance(value, str) else (type(value).__name__, repr(value))


def unite_lists(base: Any, ours: Any, theirs: Any) -> list[str] | None:
    """Return a list of different texts, such as requirements, with what both sides changed; else None."""
    if not _are_sets(base, ours, theirs):
        return None
    return [x for x in ours if x in theirs or x not in base] + _new(base, ours, theirs)


def _are_sets(*sides: Any) -> bool:
    texts = all(isinstance(side, list) and all(isinstance(x, str) for x in side) for side in sides)
    return texts and all(len(set(side)) == len(side) for side in sides)


def _new(base: list[str], ours: list[str], theirs: list[str]) -> list[str]:
    return [x for x in theirs if x not in base and x not in ours]


def merge_tables(base: str, ours: str, theirs: str) -> str | None:
    """Return the text of ours with the changes of theirs; None where it cannot be written."""
    try:
        document = tomlkit.parse(ours)
        _change(document, tomlkit.parse(theirs), *map(tomllib.loads, (base, ours, theirs)))
        return tomlkit.dumps(document)
    except (TOMLKitError, KeyError, ValueError, TypeError, AttributeError):
        return None


def _change(document: Any, other: Any, base: Any, ours: Any, theirs: Any) -> None:
    """Put into a table of ours what theirs changed, with the layout that it has there."""
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        b, o, t = (side.get(key, _ABSENT) for side in (base, ours, theirs))
        if _typed(t) in (_typed(b), _typed(o)):
            continue
        if t is _ABSENT:
            del document[key]
        elif isinstance(o, dict) and isinstance(t, dict):
            _change(document[key], other[key], b if isinstance(b, dict) else {}, o, t)
        elif _typed(o) == _typed(b):
            document[key] = other[key]
        else:
            for x in [x for x in b if x not in t and x in o]:
                document[key].remove(x)
            document[key].extend(_new(b, o, t))
