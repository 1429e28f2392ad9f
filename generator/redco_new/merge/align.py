"""Which symbols of the three sides are the same one."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from redco_new.merge.imports import pair_imports
from redco_new.merge.symbols import Symbol


@dataclass(frozen=True, eq=False)
class Triple:
    """One symbol on each side, or None where a side lacks it. theirs_at: its place there."""

    base: Symbol | None
    ours: Symbol | None
    theirs: Symbol | None
    theirs_at: int | None

    @property
    def some(self) -> Symbol:
        return self.ours or self.theirs or self.base


def align(base: list[Symbol], ours: list[Symbol], theirs: list[Symbol]) -> list[Triple]:
    """Every symbol of the three sides, once: those of ours in their order, theirs, those of base."""
    in_ours, in_theirs = match(base, ours), match(base, theirs)
    in_base = {o: b for b, o in in_ours.items()}
    both_new = match(
        [s for i, s in enumerate(ours) if i not in in_base],
        [s for i, s in enumerate(theirs) if i not in in_theirs.values()],
    )
    new_ours = [i for i in range(len(ours)) if i not in in_base]
    new_theirs = [i for i in range(len(theirs)) if i not in in_theirs.values()]
    twins = {new_ours[a]: new_theirs[b] for a, b in both_new.items()}

    def triple(b: int | None, o: int | None, t: int | None) -> Triple:
        sides = zip((base, ours, theirs), (b, o, t), strict=True)
        return Triple(*(None if i is None else side[i] for side, i in sides), t)

    found = []
    for o in range(len(ours)):
        b = in_base.get(o)
        found.append(triple(b, o, twins.get(o) if b is None else in_theirs.get(b)))
    of_base = {t: b for b, t in in_theirs.items()}
    seen = {x.theirs_at for x in found}
    found += [triple(of_base.get(t), None, t) for t in range(len(theirs)) if t not in seen]
    gone = [b for b in range(len(base)) if b not in in_ours and b not in in_theirs]
    return found + [triple(b, None, None) for b in gone]


def match(these: list[Symbol], those: list[Symbol]) -> dict[int, int]:
    """Index -> index of the same symbol: of one key, the equal ones first, the rest in order."""
    a, b = dict(enumerate(these)), dict(enumerate(those))
    pairs = pair_imports(
        {i: s for i, s in a.items() if s.imports}, {i: s for i, s in b.items() if s.imports}
    )
    left, right = by_key(a), by_key(b)
    for key in left.keys() & right.keys():
        for i in left[key]:
            equal = [j for j in right[key] if these[i].print == those[j].print]
            if equal:
                pairs[i] = equal[0]
                right[key].remove(equal[0])
        rest = [i for i in left[key] if i not in pairs]
        pairs |= dict(zip(rest, right[key], strict=False))
    return pairs


def by_key(symbols: dict[int, Symbol]) -> dict[str, list[int]]:
    """The symbols but the imports, which have no key of their own."""
    found: dict[str, list[int]] = defaultdict(list)
    for i, symbol in symbols.items():
        if not symbol.imports:
            found[symbol.key].append(i)
    return found


def scattered(*sides: list[Symbol]) -> set[str]:
    """The names that a side defines several times, with others between, and not all sides alike."""
    base, ours, theirs = (Counter(s.key for s in side if s.key in s.names) for side in sides)
    return {
        key
        for key in base.keys() | ours.keys()
        if not base[key] == ours[key] == theirs[key] and max(base[key], ours[key], theirs[key]) > 1
    }


def others(symbols: list[Symbol], keys: set[str]) -> list[Symbol]:
    return [s for s in symbols if s.key not in keys]


def of_key(symbols: list[Symbol], key: str) -> list[Symbol]:
    return [s for s in symbols if s.key == key]


def untouched(base: list[Symbol], ours: list[Symbol]) -> bool:
    """Whether ours say what those of base said."""
    return len(base) == len(ours) and all(b.same(o) for b, o in zip(base, ours, strict=True))


def bound_by(symbols: Iterable[Symbol]) -> set[str]:
    return {name for symbol in symbols for name in symbol.names}
