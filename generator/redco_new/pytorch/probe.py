"""Sizes to make a class with: the user's, and others that it takes too and that are pairwise different."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from torch import nn

from redco_new.own.call import Call
from redco_new.pytorch.search import LEAST, Search
from redco_new.pytorch.setting import Name, Setting
from redco_new.pytorch.smaller import make_smaller
from redco_new.pytorch.trial import Trial


@dataclass(frozen=True)
class Sizes:
    """What a class is traced with.

    settings: the user's, two in which all numbers are others, and the small one where it is another than the user's
    small: that the gate makes it with
    lengths: sizes that are how many parts lists have -> paths of those
    unseen: a setting of other numbers than all of these, by which what they say is tested
    """

    settings: list[Setting]
    small: Setting
    lengths: Mapping[Name, set[str]]
    unseen: Callable[[], Setting]


def find_sizes(
    make: Callable[[Mapping[str, Any]], nn.Module],
    call: Call,
    arguments: Mapping[str, Any],
    least: int,
    by_twos: bool = False,
    fixed: bool = False,
    together: bool = False,
) -> Sizes:
    """Return sizes that a class takes, none made smaller than `least`.

    by_twos: others are 2, 4, 8 times as large. fixed: dims of inputs that are no argument stay as they are, and small numbers.
    together: arguments that are as large as dims of inputs change with these, also where they can be other ones.
    """
    search = Search(make, call, Setting(arguments, call.inputs), least, by_twos, fixed, together)
    lengths = Trial(make, call, search.base).lengths()
    search.structural |= {(name,) for name in lengths}
    small = make_smaller(search)
    settings = [search.base, search.other(small, 1), search.other(small, 2)]
    if least == LEAST and small != search.base and search.holds(settings[1:], lengths):
        return find_sizes(make, call, arguments, 2 * least, by_twos, fixed, together)
    unseen = cache(partial(search.other, small, 3))
    return Sizes(settings + [small] * (small != search.base), small, lengths, unseen)
