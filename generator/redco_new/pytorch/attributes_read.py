"""Of the object that a class is made of, as one that a parser has for all models: which of its numbers it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from redco_new.own.call import Call
from redco_new.pytorch.derived import derived
from redco_new.pytorch.setting import UNREAD, Setting, attributes, members
from redco_new.pytorch.trial import Trial

WHOLE = "__dict__"  # which copies, `vars` and the like read


def without_unread(
    make: Callable[[Mapping[str, Any]], nn.Module], arguments: Mapping[str, Any], call: Call
) -> dict[str, Any]:
    """Return the arguments of a class, whose objects say which of their numbers neither it nor its call reads: these are no sizes."""
    objects = {k: x for k, x in arguments.items() if members(x) and not isinstance(x, Mapping)}
    reads: dict[str, set[str]] = {name: set() for name in objects}
    watched = {name: _copy(x, _watching(reads[name])) for name, x in objects.items()}
    if not objects or None in watched.values():
        return dict(arguments)
    setting = Setting({**arguments, **watched}, call.inputs)
    if Trial(make, call, setting).compare(setting) != "same":
        return dict(arguments)
    marked = {
        name: _copy(x, {UNREAD: frozenset(members(x)) - reads[name]})
        for name, x in objects.items()
        if WHOLE not in reads[name]
    }
    return {**arguments, **marked}


def _watching(reads: set[str]) -> dict[str, Any]:
    """Return the members of a class whose objects record what is read of them."""

    def read(self: Any, name: str) -> Any:
        reads.add(name)
        return super(type(self), self).__getattribute__(name)

    return {"__getattribute__": read}


def _copy(value: Any, more: Mapping[str, Any]) -> Any:
    """Return an equal object, of its class with more members; None of one that is made otherwise."""
    try:
        other = derived(type(value), members=more)
        new = other.__new__(other)
    except TypeError:
        return None
    attributes(new).update(attributes(value))
    return new
