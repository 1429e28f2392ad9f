"""One change of a class's sizes after the other, until all are others that it takes, and pairwise different."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

from torch import nn

from redco_new.own.call import Call
from redco_new.pytorch.groups import AT_ONCE, FEW, Groups, find_groups
from redco_new.pytorch.setting import BATCHES, Name, Setting
from redco_new.pytorch.trial import Trial

LEAST = 32  # of a size that is made smaller
# Values of a size by which the class calls something else, after which one of them is taken.
PATIENCE = 4


@dataclass
class Search:
    """Look for settings that a class takes, one change after the other.

    make: the module of arguments
    least: no size is made smaller than this
    by_twos: whether others are powers of two times as large, which divide as these do
    fixed: whether dims of inputs stay as they are, but where they are an argument of the class, and small numbers
    together: whether arguments change with dims of inputs that are as large, also where they can be other ones
    structural: sizes that change together, by which the class has other parts
    formers: settings whose sizes the next one has not
    paired: pairs of sizes that are as many times larger in one of these
    """

    make: Callable[[Mapping[str, Any]], nn.Module]
    call: Call
    base: Setting
    least: int = LEAST
    by_twos: bool = False
    fixed: bool = False
    together: bool = False
    structural: set[tuple[Name, ...]] = field(default_factory=set)
    formers: list[Setting] = field(default_factory=list)
    paired: set[tuple[Name, ...]] = field(default_factory=set)

    def other(self, setting: Setting, number: int) -> Setting:
        """Return a setting in which all sizes that can be are others, and pairwise different."""
        setting = Setting(setting.arguments, setting.inputs, BATCHES[number])
        self.trial = Trial(self.make, self.call, setting)
        if not self.formers:  # of the next ones, the same sizes change together
            self.formers, self._groups = [self.base], list(find_groups(self, setting))
        left = self._groups
        for _ in range(2):  # a size may wait for another that it goes with
            setting, failed = self._change(setting, left, number)
            left = [(name,) for names in failed for name in names] if failed != left else failed
        setting = self._by_pairs(self._by_multiples(setting))
        self.formers = [*self.formers, setting]
        return setting

    def _change(self, setting: Setting, groups: Groups, number: int) -> tuple[Setting, Groups]:
        """Return a setting in which sizes are others, and those of them that cannot be.

        All are tried at once, then each half of them: most can be others whatever the rest is.
        """
        if len(groups) > AT_ONCE:
            changed, failed = self.at_once(setting, groups, number)
            if self.trial.compare(changed) == "same":
                return changed, failed
            half = len(groups) // 2
            setting, failed = self._change(setting, groups[:half], number)
            setting, others = self._change(setting, groups[half:], number)
            return setting, [*failed, *others]
        failed = []
        for names in groups:
            changed = self.first(setting, names, self.values(setting, names, number))
            if changed is setting:
                failed.append(names)
            setting = self.go_on(changed, names)
        return setting, failed

    def at_once(self, setting: Setting, groups: Groups, number: int) -> tuple[Setting, Groups]:
        """Return a setting with the first of other values of some sizes, and those that have none."""
        staying: Groups = []
        for names in groups:
            values = [] if names in self.structural else self.values(setting, names, number)
            staying += [names] * (not values)
            setting = setting.set(names, values[0]) if values else setting
        return setting, staying

    def go_on(self, setting: Setting, names: tuple[Name, ...]) -> Setting:
        """Return a setting, by which others are compared from here on: it may call something else than the user's, where inputs are of another size.

        names: what was changed last
        """
        if any(name[0] == "input" for name in names):
            self.trial = Trial(self.make, self.call, setting)
        return setting

    def _by_multiples(self, setting: Setting) -> Setting:
        """Return a setting in which sizes that a class took no other value of are so many times larger, as others are now: what these are to divide by."""
        for name in [x for x in setting.names() if self._stays(setting, x)]:
            mine = self.base.get(name)
            several = [n for n in self.values(setting, (name,), 1) if n % mine == 0]
            setting = self.first(setting, (name,), several[:2])
        return setting

    def _by_pairs(self, setting: Setting) -> Setting:
        """Return a setting in which sizes that a class takes no other value of are so many times larger two by two: a width, and heads or their size.

        Beside one that is another already, which it divides, as heads do a width.
        """
        staying = [x for x in setting.names() if self._stays(setting, x)]
        pairs = sorted(combinations(staying, 2), key=lambda pair: pair in self.paired)  # others
        pairs += [
            (x, y)
            for x in staying
            for y in setting.names()
            if y not in staying and (y,) not in self.structural and self._divides(x, y)
        ]
        for pair in pairs:
            others = self._others(setting, pair)
            for times in (2, 3):
                values = [times * setting.get(x) for x in pair]
                if others & {*values} or not any(self._stays(setting, x) for x in pair):
                    continue
                changed = setting
                for x, value in zip(pair, values, strict=True):
                    changed = changed.set((x,), value)
                if self.trial.compare(changed) == "same":
                    setting = changed
                    self.paired.add(pair)
                    break
        return setting

    def _divides(self, name: Name, other: Name) -> bool:
        """Return whether a size divides another one, which is an argument of the class, too."""
        less, more = self.base.get(name), self.base.get(other)
        return other[0] == "model" and type(more) is int and more > less and more % less == 0

    def _others(self, setting: Setting, names: tuple[Name, ...]) -> set[Any]:
        """Return the values of other sizes, but of those that say how many parts there are: no number is said by these."""
        others = [x for x in setting.names() if x not in names and (x,) not in self.structural]
        return {setting.get(name) for name in others}

    def holds(self, others: list[Setting], lengths: Collection[Name]) -> bool:
        """Return whether a size is as the user's in each of some smaller settings, and may be another one beside the user's: as heads, of a width that holds no more of them.

        lengths: sizes that are how many parts lists have
        """
        names = [x for x in self.base.names() if x[0] == "model" and x not in lengths]
        counts = [x for x in names if type(mine := self.base.get(x)) is int and mine >= FEW]
        self.trial = Trial(self.make, self.call, self.base)
        return not self.fixed and any(
            self.trial.compare(self.base.set((name,), value)) == "same"
            for name in counts
            if all(one.get(name) == self.base.get(name) for one in others)
            for value in self.values(self.base, (name,), 1)[:PATIENCE]
        )

    def _stays(self, setting: Setting, name: Name) -> bool:
        """Return whether a size of the class is as the user's, and may be another."""
        value = setting.get(name)
        count = type(value) is int and value > 1 and (name,) not in self.structural
        return count and name[0] == "model" and not self.fixed and value == self.base.get(name)

    def values(self, setting: Setting, names: tuple[Name, ...], number: int) -> list[Any]:
        """Return other values of a size, but those that another size has."""
        value = setting.get(names[0])
        if isinstance(value, float) and not value:
            return []  # what is switched off, as dropout and noise, is not printed
        others = self._others(setting, names)
        if isinstance(value, float):  # several rates may be one number, and are several fields
            more = [
                value * (1 + number / 4 + n / 16) if value else (number + n / 4) / 8
                for n in range(4)
            ]
            less = [value * (1 - number / 16 - n / 64) for n in range(4)]
            return [x for x in (*more, *less) if x not in others]
        others |= {former.get(names[0]) for former in self.formers}
        if self.by_twos and value > 1:  # not all the same times: each is to be told from the others
            turn = setting.names().index(names[0]) * number % 3
            powers = [*(2 ** ((n + turn) % 3 + 1) for n in range(3)), 16, 32]
            values = [value * n for n in powers if value * n not in others]
            return [n for n in values if not self._in_proportion(setting, names, n)] or values
        # What is large is split in halves, by heads and by groups: as the user's, another one is to be even.
        steps = [16 * number * n for n in range(1, 5)] if value >= LEAST // 2 else []
        values = [value + n for n in (*steps, number, 2 * number)]
        values += [value * n for n in range(number + 1, number + 5)]
        values += [value + 8 * n for n in range(number, number + 4)]
        values = [n for n in values if n not in others and n != setting.batch]
        values = [n for n in values if not self._in_proportion(setting, names, n)]
        # As much larger as another small size: either would say what the other does. And a text that becomes longer than
        # a chunk, or a window, has another program.
        return sorted(
            dict.fromkeys(values),
            key=lambda n: (self._as_much_larger(setting, names, n), self._turns(setting, names, n)),
        )

    def _turns(self, setting: Setting, names: tuple[Name, ...], value: int) -> bool:
        """Return whether a value is on the other side of the dims of inputs, or of a size where it is one of these, than the user's."""
        inputs = any(name[0] == "input" for name in names)
        mine = self.base.get(names[0])
        for name in setting.names():
            now, before = setting.get(name), self.base.get(name)
            if name in names or type(now) is not int or (name[0] == "input") is inputs:
                continue
            if (mine > before) is not (value > now):
                return True
        return False

    def _as_much_larger(self, setting: Setting, names: tuple[Name, ...], value: int) -> bool:
        """Return whether another small size is as much larger than the user's as a value is."""
        mine = self.base.get(names[0])
        pairs = [
            (setting.get(name), self.base.get(name))
            for name in setting.names()
            if name not in names
        ]
        whole = [(now, before) for now, before in pairs if type(now) is type(before) is int]
        return any(
            now - before == value - mine != 0 for now, before in whole if before < LEAST // 2
        )

    def _in_proportion(self, setting: Setting, names: tuple[Name, ...], value: int) -> bool:
        """Return whether a value is as many times another size as the user's: that would look like a number of the class."""
        mine = self.base.get(names[0])
        for name in setting.names():
            now, before = setting.get(name), self.base.get(name)
            if name in names or type(now) is not int or type(before) is not int or now == before:
                continue
            less, more = sorted((before, mine))
            if 0 < less < more and more % less == 0 and value * before == mine * now:
                return True
        return False

    def first(self, setting: Setting, names: tuple[Name, ...], values: list[Any]) -> Setting:
        """Return the setting with the first of other values that the class takes, of the same parts.

        By which it calls the same, if there is one: sizes of the class that others do not are structural; of an input,
        that say how much is padded, whatever the class takes.
        """
        others: list[Setting] = []
        for value in [] if names in self.structural else values:
            changed = setting.set(names, value)
            result = self.trial.compare(changed)
            if result == "same":
                return changed
            if result == "calls":
                others.append(changed)
            if result == "parts" or len(others) == PATIENCE:
                break
        else:
            result = "calls" if others else ""
        if result == "parts" or result and all(name[0] == "model" for name in names):
            self.structural.add(names)  # as of layers that share one's parameters
            return setting
        return others[0] if others and not self._by_chance(setting, names, values) else setting

    def _by_chance(self, setting: Setting, names: tuple[Name, ...], values: list[Any]) -> bool:
        """Return whether dims of inputs are as large as an argument that they do not go with: they can be others without it, by which the class calls the same."""
        inputs = tuple(name for name in names if name[0] == "input")
        alone = (setting.set(inputs, value) for value in values[:1])
        return inputs != names and any(self.trial.compare(x) == "same" for x in alone)

    @cached_property
    def trial(self) -> Trial:
        return Trial(self.make, self.call, self.base)
