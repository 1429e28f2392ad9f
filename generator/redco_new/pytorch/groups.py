"""Which sizes of a class change together: an argument alone, or with dims of inputs that are as large."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any, Protocol

from redco_new.pytorch.setting import Name, Setting
from redco_new.pytorch.trial import Trial

Groups = list[tuple[Name, ...]]

AT_ONCE = 2  # sizes of which more are tried at once
FEW = 8  # a size below it may be a count, of which there is another program for each


class Tries(Protocol):
    """Try sizes of a class, as search.py says."""

    fixed: bool
    together: bool
    structural: set[tuple[Name, ...]]

    @property
    def trial(self) -> Trial:
        """What compares a setting with the one before."""

    def values(self, setting: Setting, names: tuple[Name, ...], number: int) -> list[Any]:
        """Return other values of a size."""

    def first(self, setting: Setting, names: tuple[Name, ...], values: list[Any]) -> Setting:
        """Return the setting with the first of the values that the class takes."""

    def at_once(self, setting: Setting, groups: Groups, number: int) -> tuple[Setting, Groups]:
        """Return a setting with other values of some sizes, and those that have none."""


def find_groups(search: Tries, setting: Setting, least: float = -inf) -> Iterator[tuple[Name, ...]]:
    """Yield the sizes that change together: arguments that are dims of inputs with these.

    least: of the sizes that are asked for
    """
    names = [name for name in setting.names() if setting.get(name) >= least]
    if search.fixed:
        names = [name for name in names if not _stays(name, setting.get(name))]
    yield from _groups_of(search, setting, names, set())


def _groups_of(
    search: Tries, setting: Setting, names: list[Name], grouped: set[Name]
) -> Iterator[tuple[Name, ...]]:
    """Yield the groups of some sizes, but of those that are in another: all by themselves, where they can be, or of each half."""
    if len(names) > AT_ONCE:
        simple, of_these = _simple_groups(search, setting, names, grouped)
        if simple and search.trial.compare(search.at_once(setting, simple, 1)[0]) == "same":
            grouped |= of_these
            yield from simple
            return
        half = len(names) // 2
        yield from _groups_of(search, setting, names[:half], grouped)
        yield from _groups_of(search, setting, names[half:], grouped)
        return
    for name in names:
        if name in grouped:
            continue
        groups = _options(search, setting, name, grouped)
        for group in groups:
            if search.first(setting, group, search.values(setting, group, 1)) is not setting:
                grouped |= set(group)
                yield group
                break
        else:
            if name[0] == "input":  # a text waits for a table of positions that is longer
                grouped |= set(groups[0])
                yield groups[0]


def _simple_groups(
    search: Tries, setting: Setting, names: list[Name], grouped: set[Name]
) -> tuple[Groups, set[Name]]:
    """Return the first group that each size may be of, where it has other values, and what is in these."""
    groups, grouped = list[tuple[Name, ...]](), {*grouped}
    for name in names:
        if name not in grouped:
            group = _options(search, setting, name, grouped)[0]
            if group not in search.structural and search.values(setting, group, 1):
                groups.append(group)
                grouped |= set(group)
    return groups, grouped


def _options(search: Tries, setting: Setting, name: Name, grouped: set[Name]) -> Groups:
    """Return the groups that a size may be of, the first that is to be tried first."""
    names = setting.names()
    same = [x for x in names if setting.get(x) == setting.get(name) and x != name]
    equal = tuple(x for x in same if x[0] == "input")
    apart = name[0] == "model" and not search.together
    groups = [(name,), (name, *equal)] if apart else [(name, *equal), (name,)]
    if name[0] == "model":  # a width may have two names
        single = [x for x in same if x[0] != "input" and (x,) not in search.structural]
        groups += [(name, x) for x in single if x not in grouped]
    return [*dict.fromkeys(groups)]


def _stays(name: Name, value: float) -> bool:
    """Return whether a size may be what the program itself follows from: a dim of an input, a count or a place of parts."""
    return name[0] == "input" or value < FEW
