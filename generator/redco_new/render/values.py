"""The door by which values enter templates: each is what its field declares, or it is refused.

What a file says (a checkpoint's config.json, a manifest, the name of a folder) can hold anything, and a
template prints it into code that is imported. So each field of a context declares what it holds, by the
types here, and `admit` holds it to that before anything is printed: numbers are finite, names are
identifiers, words leave a docstring or a comment as it is. Only `Code` is printed as it comes: redco
writes it itself, of literals.
"""

from __future__ import annotations

import keyword
import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from redco_new.errors import RedcoError

LINE = 100  # columns of what is printed
Check = Callable[[Any], bool]

# What no docstring, comment or string keeps inside: quotes, backslashes, whatever is not printable.
_OUTSIDE = re.compile(r"[\"\\]|[^\x20-\x7e\xa0-\U0010ffff]")


def is_words(value: Any) -> bool:
    """Return whether `value` is text of one line that leaves what it is printed into as it is."""
    return isinstance(value, str) and not _OUTSIDE.search(value) and value.isprintable()


def words(text: str) -> str:
    """Return a text as docstrings, comments and TOML can have it: quotes, backslashes and lines' ends become "_"."""
    return "".join(c if is_words(c) else "_" for c in text)


def is_name(value: Any) -> bool:
    """Return whether `value` is an identifier of Python, with dots between several."""
    parts = value.split(".") if isinstance(value, str) else [""]
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in parts)


def is_plain(value: Any) -> bool:
    """Return whether `value` is None, a bool, a finite number or a text, or a dict, list or tuple of these."""
    match value:
        case Mapping():
            return all(is_plain(part) for pair in value.items() for part in pair)
        case list() | tuple():
            return all(map(is_plain, value))
    return value is None or type(value) in (bool, str) or is_number(value)


def is_number(value: Any) -> bool:
    """Return whether `value` is an int, or a finite float."""
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _anything(value: Any) -> bool:
    return True


Code = Annotated[str, _anything, "Python or Markdown that redco wrote, of literals"]
Name = Annotated[str, is_name, "an identifier"]
Text = Annotated[str, lambda value: isinstance(value, str), "a text, which `python` prints"]
Plain = Annotated[Any, is_plain, "plain data, which `python` prints"]
Number = Annotated[
    Any,
    lambda v: type(v) is bool or is_number(v) or (type(v) is tuple and all(map(is_number, v))),
    "a finite number, or a tuple of some",
]


def one_of(texts: AbstractSet[str]) -> tuple[Check, str]:
    """Return what a field of one of these texts is annotated with."""
    return (
        lambda value: isinstance(value, str) and value in texts
    ), f"one of {', '.join(sorted(texts))}"


def checked(what: str) -> tuple[Check, str]:
    """Return what a field is annotated with that is checked where it is read, and of whose parts templates print some."""
    return _anything, what


def admit(context: Any, where: str) -> None:
    """Raise RedcoError if a field of a context, a dataclass, is not what it declares.

    where: whose context it is, for messages.
    """
    kind: Any = type(context)
    for field in fields(context):
        _admit(getattr(context, field.name), _hints(kind)[field.name], where, field.name)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _admit(value: Any, hint: Any, where: str, field: str) -> None:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        *_, check, what = _flat(hint.__metadata__)
        if not check(value):
            _refuse(value, what, where, field)
    elif origin in (Union, types.UnionType):
        if not (value is None and type(None) in parts):
            _admit(value, next(part for part in parts if part is not type(None)), where, field)
    elif isinstance(hint, type) and is_dataclass(hint):
        if not isinstance(value, hint):
            _refuse(value, hint.__name__, where, field)
        admit(value, where)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        for key, item in _expect(value, Mapping, where, field).items():
            _admit(key, parts[0], where, field)
            _admit(item, parts[1], where, f"{field}.{key}")
    elif isinstance(origin, type) and issubclass(origin, (Sequence, AbstractSet)):
        items = _expect(value, origin, where, field)
        uniform = len(parts) == 1 or parts[1:] == (...,)
        for item, part in zip(items, parts[:1] * len(items) if uniform else parts, strict=True):
            _admit(item, part, where, field)
    else:
        check, what = _SIMPLE[hint]
        if not check(value):
            _refuse(value, what, where, field)


_SIMPLE: dict[Any, tuple[Check, str]] = {
    str: (is_words, "text of one line without quotes and backslashes"),
    int: (lambda value: type(value) is int, "an integer"),
    float: (is_number, "a finite number"),
    bool: (lambda value: type(value) is bool, "true or false"),
}


def _flat(metadata: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return (check, words) of what an Annotated has, where these are one item too."""
    last = metadata[-1]
    return last if isinstance(last, tuple) else metadata


def _expect(value: Any, kind: Any, where: str, field: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, str):
        _refuse(value, f"a {kind.__name__}", where, field)
    return value


def _refuse(value: Any, what: str, where: str, field: str) -> None:
    shown = words(repr(value))[:60]
    raise RedcoError(where, f"{field} is {shown}, and not {what}", "mend what says so")
