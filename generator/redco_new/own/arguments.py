"""The arguments of a class: which of them are sizes, and what they are with some of these changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from redco_new.own.maker import call_user_code
from redco_new.own.signature import maker_signature

Name = tuple[str, ...]  # of a size: its argument, and its key or field there


def change_arguments(
    cls: Callable[..., Any], arguments: Mapping[str, Any], changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `arguments` of `cls` with `changes`: a mapping changes keys or fields of an argument."""
    full = add_defaults(cls, arguments, changes)
    return {**full, **{name: change_value(full.get(name), x) for name, x in changes.items()}}


def add_defaults(
    cls: Callable[..., Any], arguments: Mapping[str, Any], names: Iterable[str]
) -> dict[str, Any]:
    """Return `arguments` of `cls`, and the defaults of those among `names` that they lack."""
    defaults = {
        n: p.default for n, p in maker_signature(cls).parameters.items() if p.default is not p.empty
    }
    return {**arguments, **{n: defaults[n] for n in names if n in defaults.keys() - arguments}}


def change_value(value: Any, change: Any) -> Any:
    """Return what an argument is changed to: a mapping changes keys, or fields, of what has some."""
    if not isinstance(change, Mapping):
        return change
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name = type(value).__name__  # whose own code may refuse the change
        return call_user_code(name, lambda: dataclasses.replace(value, **change))
    return {**value, **change} if isinstance(value, Mapping) else change


def nest_sizes(sizes: Mapping[Name, Any]) -> dict[str, Any]:
    """Return changes of arguments, from sizes by their names."""
    changes: dict[str, Any] = {}
    for (argument, *part), value in sizes.items():
        if part:
            changes.setdefault(argument, {})[part[0]] = value
        else:
            changes[argument] = value
    return changes


def add_sizes(cls: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor, and the sizes among the defaults of the others."""
    parameters = maker_signature(cls).parameters.items()
    return {**{name: p.default for name, p in parameters if _is_size(p.default)}, **arguments}


def sizes_of(arguments: Mapping[str, Any]) -> Iterator[tuple[Name, Any]]:
    """Yield the sizes among arguments: whole numbers and tuples of them, in configs and tables too."""
    for name, value in arguments.items():
        if _is_size(value):
            yield (name,), value
        elif isinstance(value, Mapping):
            yield from (((name, key), part) for key, part in value.items() if _is_size(part))
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            for field in dataclasses.fields(value):
                if field.init and _is_size(part := getattr(value, field.name)):
                    yield (name, field.name), part


def _is_size(value: Any) -> bool:
    several = value if isinstance(value, tuple) and value else (value,)
    return all(type(n) is int and n > 0 for n in several)
