"""Which symbols of the three sides are the same one, and where a new one goes."""

import ast
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from redco_merge.names import DEFINITIONS
from redco_merge.symbols import DOC, HEAD, HEADER, Symbol


@dataclass(frozen=True, eq=False)
class Triple:
    """One symbol on each side, or None where a side lacks it.

    base: as the template wrote it before.
    ours: as the user has it.
    theirs: as the template writes it now.
    theirs_at: its index among the template's symbols.
    """

    base: Symbol | None
    ours: Symbol | None
    theirs: Symbol | None
    theirs_at: int | None


def align_sides(base: list[Symbol], ours: list[Symbol], theirs: list[Symbol]) -> list[Triple]:
    """Return every symbol of the three sides, once: those of ours in their order, theirs, base."""
    in_ours, in_theirs = match_symbols(base, ours), match_symbols(base, theirs)
    in_base = {o: b for b, o in in_ours.items()}
    new_ours = [i for i in range(len(ours)) if i not in in_base]
    of_base = {t: b for b, t in in_theirs.items()}
    new_theirs = [i for i in range(len(theirs)) if i not in of_base]
    both_new = match_symbols([ours[i] for i in new_ours], [theirs[i] for i in new_theirs])
    twins = {new_ours[a]: new_theirs[b] for a, b in both_new.items()}

    def triple(b: int | None, o: int | None, t: int | None) -> Triple:
        return Triple(
            None if b is None else base[b],
            None if o is None else ours[o],
            None if t is None else theirs[t],
            t,
        )

    triples = []
    for o in range(len(ours)):
        in_b = in_base.get(o)
        triples.append(triple(in_b, o, twins.get(o) if in_b is None else in_theirs.get(in_b)))
    seen = {x.theirs_at for x in triples}
    triples += [triple(of_base.get(t), None, t) for t in range(len(theirs)) if t not in seen]
    gone = [b for b in range(len(base)) if b not in in_ours and b not in in_theirs]
    return triples + [triple(b, None, None) for b in gone]


def match_symbols(these: list[Symbol], those: list[Symbol]) -> dict[int, int]:
    """Return index -> index of the same symbol: of one key, equal ones first, the rest in order."""
    a, b = dict(enumerate(these)), dict(enumerate(those))
    pairs = _pair_imports(
        {i: s for i, s in a.items() if s.imports}, {i: s for i, s in b.items() if s.imports}
    )
    left, right = _by_key(a), _by_key(b)
    for key in left.keys() & right.keys():
        pairs |= _pair_of_one_key(left[key], right[key], these, those)
    return pairs


def _pair_of_one_key(
    left: list[int], right: list[int], these: list[Symbol], those: list[Symbol]
) -> dict[int, int]:
    """Return index -> index of symbols of one key: equal ones first, the rest in order."""
    if len(left) == len(right) == 1:
        return {left[0]: right[0]}
    equal: dict[Hashable, deque[int]] = defaultdict(deque)
    for j in right:
        equal[those[j].fingerprint].append(j)
    pairs = {i: at.popleft() for i in left if (at := equal[these[i].fingerprint])}
    used = set(pairs.values())
    rest = [i for i in left if i not in pairs]
    return pairs | dict(zip(rest, [j for j in right if j not in used], strict=False))


def _by_key(symbols: dict[int, Symbol]) -> dict[str, list[int]]:
    """Return the symbols but the imports, which have no key of their own."""
    by_key: dict[str, list[int]] = defaultdict(list)
    for i, symbol in symbols.items():
        if not symbol.imports:
            by_key[symbol.key].append(i)
    return by_key


def _pair_imports(these: dict[int, Symbol], those: dict[int, Symbol]) -> dict[int, int]:
    """Return index -> index of the imports that bind the same, or else are from the same module."""
    pairs: dict[int, int] = {}
    readings: tuple[Callable[[Symbol], Hashable], ...] = (
        lambda symbol: frozenset(symbol.imports),
        module_of,
    )
    for reading in readings:
        used = set(pairs.values())
        free: dict[Hashable, deque[int]] = defaultdict(deque)
        for j, symbol in those.items():
            if j not in used:
                free[reading(symbol)].append(j)
        for i, symbol in these.items():
            if i not in pairs and (key := reading(symbol)) is not None and free[key]:
                pairs[i] = free[key].popleft()
    return pairs


def module_of(symbol: Symbol) -> str | None:
    """Return the module of a single `from` statement, None for any other import."""
    one = len(symbol.nodes) == 1 and isinstance(symbol.nodes[0], ast.ImportFrom)
    return symbol.imports[0].module if one else None


def scattered_keys(base: list[Symbol], ours: list[Symbol], theirs: list[Symbol]) -> set[str]:
    """Return the names that a side defines in several places, and not all sides equally often."""
    b, o, t = (Counter(s.key for s in side if s.key in s.names) for side in (base, ours, theirs))
    return {
        key
        for key in b.keys() | o.keys()
        if not b[key] == o[key] == t[key] and max(b[key], o[key], t[key]) > 1
    }


def without_keys(symbols: list[Symbol], keys: set[str]) -> list[Symbol]:
    """Return the symbols that have none of `keys`."""
    return [s for s in symbols if s.key not in keys]


def with_key(symbols: list[Symbol], key: str) -> list[Symbol]:
    """Return the symbols of that key."""
    return [s for s in symbols if s.key == key]


def all_same(these: list[Symbol], those: list[Symbol]) -> bool:
    """Return whether two lists of symbols say the same."""
    pairs = zip(these, those, strict=False)
    return len(these) == len(those) and all(a.same(b) for a, b in pairs)


def names_bound_by(symbols: Iterable[Symbol]) -> set[str]:
    """Return the names that `symbols` bind."""
    return {name for symbol in symbols for name in symbol.names}


@dataclass(frozen=True, eq=False)
class Item:
    """A symbol of the result.

    symbol: what it says.
    lead: its blank lines and comments above.
    body: its other lines.
    theirs_at: its index among the template's symbols, None where the template lacks it.
    ours: the user's symbol in its place, if any.
    """

    symbol: Symbol
    lead: list[str]
    body: list[str]
    theirs_at: int | None
    ours: Symbol | None = None

    @property
    def lines(self) -> list[str]:
        return self.lead + self.body


def insert_symbol(symbol: Symbol, body: list[str], theirs_at: int, items: list[Item]) -> int | None:
    """Insert a symbol of the template into `items` after the one that it follows there.

    It goes below what it needs when it runs, and above what needs it then.
    body: its lines in the result.
    theirs_at: its index among the template's symbols.
    Returns its index in `items`; None if it fits nowhere.
    """
    needs, names = symbol.needs, symbol.names
    above = (i for i, item in enumerate(items) if not item.symbol.needs.isdisjoint(names))
    below = (i for i in range(len(items), 0, -1) if items[i - 1].symbol.names & needs)
    low = max(_end_of_preamble(symbol, items), next(below, 0))
    high = min(len(items) - 1, next(above, len(items)))
    if low > high:
        return None
    beside = _index_beside_neighbour(theirs_at, items)
    if isinstance(symbol.nodes[0], DEFINITIONS):
        while beside < len(items) and _is_new_definition(items[beside]):
            beside += 1  # what the user put there stays first
    at = min(max(beside, low), high)
    items.insert(at, Item(symbol, symbol.lead, body, theirs_at))
    return at


def _index_beside_neighbour(theirs_at: int, items: list[Item]) -> int:
    """Return the index after the nearest symbol above in the template, else before that below."""
    indices = {item.theirs_at: i for i, item in enumerate(items) if item.theirs_at is not None}
    above = [at for at in indices if at < theirs_at]
    below = [at for at in indices if at > theirs_at]
    return indices[max(above)] + 1 if above else indices[min(below)]


def _is_new_definition(item: Item) -> bool:
    """Return whether it is a function or class that the template lacks."""
    return item.theirs_at is None and isinstance(item.symbol.nodes[0], DEFINITIONS)


def _end_of_preamble(symbol: Symbol, items: list[Item]) -> int:
    """Return the first index for a symbol: below the docstring and the imports of `__future__`.

    An import of `__future__` may be above the others of it.
    """
    keys, future = {HEAD, HEADER, DOC}, _is_future(symbol)
    top = (
        i + 1
        for i in range(len(items) - 1, -1, -1)
        if items[i].symbol.key in keys or not future and _is_future(items[i].symbol)
    )
    return next(top, 0)


def _is_future(symbol: Symbol) -> bool:
    return any(x.module == "__future__" for x in symbol.imports)
