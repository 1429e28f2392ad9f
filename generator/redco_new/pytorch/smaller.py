"""Smaller sizes of a class, for the gate and for tests."""

from __future__ import annotations

from redco_new.pytorch.groups import FEW, find_groups
from redco_new.pytorch.search import LEAST, Search
from redco_new.pytorch.setting import TORCH, Name, Setting

LARGE = 64  # a size that is at least so large is made smaller
FIRST = 8  # positions that a table may have before that of a text's first token


def make_smaller(search: Search) -> Setting:
    """Return a setting of smaller sizes: each the least of its halves that the class takes; or one half, then another, while others become smaller too."""
    setting = search.base
    groups = list(find_groups(search, setting, LARGE))
    for names in sorted(groups, key=lambda names: names[0][0] != "input"):  # texts first
        if halves := _halves(search, setting, names):
            changed = search.first(setting, names, [*halves[:1], *halves[1:][-1:]])
            setting = search.go_on(changed, names)
    former = None
    while former is not setting:  # as of a width that holds no less than what turns of a head
        former = setting
        for names in groups:
            if setting.get(names[0]) != search.base.get(names[0]):
                setting = _halve(search, setting, names)
    return setting


def _halve(search: Search, setting: Setting, names: tuple[Name, ...]) -> Setting:
    """Return a setting in which a size is half of what it is, or that and another one, which divides it, as heads do a width."""
    for half in _halves(search, setting, names)[-1:]:
        changed = setting.set(names, half)
        counts = [x for x in setting.names() if _is_count(search, setting, x, names[0])]
        for one in (changed, *(changed.set((x,), setting.get(x) // 2) for x in counts)):
            if search.trial.compare(one) == "same":
                return one
    return setting


def _is_count(search: Search, setting: Setting, name: Name, other: Name) -> bool:
    """Return whether a size is how many parts another one has, and may be half of that."""
    value, base = setting.get(name), search.base.get(name)
    if type(value) is not int or (name,) in search.structural or name[0] != "model":
        return False
    return FEW <= value and base < LARGE and value % 2 == 0 and search.base.get(other) % base == 0


def _halves(search: Search, setting: Setting, names: tuple[Name, ...]) -> list[int]:
    """Return what a large size is halved to, again and again, the least first."""
    value = setting.get(names[0])
    if not isinstance(value, int) or value < LARGE:
        return []
    # A table of positions stays longer than a text: the meta device looks nothing up.
    texts = [x.shape for x in setting.inputs.values() if x.dtype in TORCH]
    lengths = [n + FIRST for shape in texts for n in shape]
    own = names[0][0] == "model"
    least = max([search.least, *(n for n in lengths if own and n <= value)])
    if "window" in str(names[0][-1]):
        least = LEAST // 4  # which a text of the gate is longer than
    return [n for k in range(10, 0, -1) if (n := value // 2**k) >= least]
