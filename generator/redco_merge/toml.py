"""A text of TOML with what another one changes, in its own layout."""

import tomllib
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

_ABSENT = object()


def merge_tables(base: str, ours: str, theirs: str) -> str | None:
    """Return the text of ours with the changes of theirs, which win; None where it cannot be written.

    Of lists that both changed, such as those of requirements, the result has what each added and lacks what each took away.
    """
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
        if repr(t) in (repr(b), repr(o)):
            continue
        if t is _ABSENT:
            del document[key]
        elif isinstance(o, dict) and isinstance(t, dict):
            _change(document[key], other[key], b if isinstance(b, dict) else {}, o, t)
        elif repr(o) == repr(b):
            document[key] = other[key]
        else:
            for x in [x for x in b if x not in t and x in o]:
                document[key].remove(x)
            document[key].extend(x for x in t if x not in b and x not in o)
