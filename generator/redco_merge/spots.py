"""A symbol of a file, and the file with that symbol as another file has it: the one change that conflicts are made of.

A conflict takes the template's change of a symbol back; to take the template's side takes the user's back.
"""

import ast
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from redco_merge.limit import check_time
from redco_merge.matching import Reach
from redco_merge.names import FUNCTIONS, Binding
from redco_merge.symbols import DOC, HEAD, HEADER, Symbol, is_definition, symbols_of


@dataclass(frozen=True, eq=False)
class Spot:
    """Where a symbol of a file stands, or would.

    lines: of the file.
    scope: the path of its class, with a dot; "" for the file.
    siblings: the symbols of that scope.
    start: the line of the file that these begin at.
    symbol: None where the file lacks it.
    row: the first line of the symbol, comments above included.
    """

    lines: list[str]
    scope: str
    siblings: list[Symbol]
    start: int
    symbol: Symbol | None = None
    row: int = 0

    @property
    def path(self) -> str:
        """The dotted path of the symbol; "" for none."""
        return f"{self.scope}{self.symbol.key}".removesuffix(f".{HEADER}") if self.symbol else ""

    def each(self) -> list["Spot"]:
        """Return the symbols of the scope."""
        rows = accumulate((len(x.lines) for x in self.siblings), initial=self.start)
        return [
            replace(self, symbol=x, row=row) for x, row in zip(self.siblings, rows, strict=False)
        ]

    def inside(self) -> "Spot":
        """Return the scope that the symbol is."""
        symbol = self.symbol
        assert symbol
        start = self.row + len(symbol.lead)
        return Spot(self.lines, f"{self.scope}{symbol.key}.", symbol.members or [], start)

    def put(self, lead: list[str], body: list[str]) -> list[str]:
        """Return the lines of the file with these in place of the symbol."""
        size = len(self.symbol.lines) if self.symbol else 0
        return [*self.lines[: self.row], *lead, *body, *self.lines[self.row + size :]]

    def like(self, other: "Spot", whole: bool = True) -> list[str] | None:
        """Return the lines of the file with its symbol as `other` has it; None where it fits nowhere.

        whole: all of it; else the header of a class, of members of which both have some, and these stay.
        """
        mine, new = self.symbol, other.symbol
        if not mine or not new:
            return self._with_symbol_of(other) if new else self.put([], [])
        lead = (mine if mine.comments == new.comments else new).lead
        if whole:
            return self.put(lead, new.body)
        assert mine.members and new.members
        return self.put(lead, new.members[0].body + mine.body[len(mine.members[0].body) :])

    def _with_symbol_of(self, other: "Spot") -> list[str] | None:
        """Return the lines of the file with the symbol of `other`, after its neighbour there."""
        index = match_symbols(self.siblings, other.siblings)
        at = [index.get(i) for i in range(len(self.siblings))]
        there = next(i for i, s in enumerate(other.siblings) if s is other.symbol)
        new = other.siblings[there]
        place = _place_of(new, there, self.siblings, at)
        if place is None:
            return None
        below = self.siblings[place]
        if (there_below := at[place]) is not None:  # the blank lines that it has in the other file
            like = other.siblings[there_below]
            if like.comments == below.comments and len(like.lead) > len(below.lead):
                below = replace(below, lead=like.lead)
        symbols = [*self.siblings[:place], new, below, *self.siblings[place + 1 :]]
        size = sum(len(x.lines) for x in self.siblings)
        body = [line for x in symbols for line in x.lines]
        return [*self.lines[: self.start], *body, *self.lines[self.start + size :]]


def both_have_members(*spots: Spot) -> bool:
    """Return whether all of them are classes whose members are symbols of their own."""
    return all(x.symbol and x.symbol.members for x in spots)


def find_spots(lines: list[str], path: str) -> list[Spot]:
    """Return the places of `path`: the symbols that have it, else the classes that may hold it."""
    return _find(Spot(lines, "", symbols_of(lines), 0), path)


def _find(scope: Spot, path: str) -> list[Spot]:
    here, inside = [], []
    for spot in scope.each():
        key = spot.symbol.key if spot.symbol else ""
        if key == path:
            here.append(spot)
        elif spot.symbol and spot.symbol.members and path.startswith(f"{key}."):
            inside += _find(spot.inside(), path.removeprefix(f"{key}."))
    return here + inside or [scope]


def pair_spots(old: list[str], new: list[str]) -> Iterator[tuple[Spot, Spot]]:
    """Yield each symbol of two files, as both have it: a class, then its members. Raises SyntaxError."""
    yield from _pair(Spot(old, "", symbols_of(old), 0), Spot(new, "", symbols_of(new), 0))


def _pair(old: Spot, new: Spot) -> Iterator[tuple[Spot, Spot]]:
    check_time()
    index = match_symbols(old.siblings, new.siblings)
    others = new.each()
    for i, spot in enumerate(old.each()):
        other = others[index[i]] if i in index else new
        a, b = spot.symbol, other.symbol
        if a and a.key != HEADER:
            yield spot, other
        if a and b and a.members and b.members:
            yield from _pair(spot.inside(), other.inside())
    for j in sorted({*range(len(others))} - {*index.values()}):
        yield old, others[j]


def match_symbols(these: list[Symbol], those: list[Symbol]) -> dict[int, int]:
    """Return index -> index of the same symbol: of one key, equal ones first, the rest in order."""
    readings: tuple[Callable[[Symbol], Hashable], ...] = (
        lambda symbol: (symbol.key, *symbol.body),
        lambda symbol: symbol.key,
        lambda symbol: _module_of(symbol) or symbol.key,
    )
    pairs: dict[int, int] = {}
    for reading in readings:
        free: dict[Hashable, deque[int]] = defaultdict(deque)
        used = set(pairs.values())
        for j, symbol in enumerate(those):
            if j not in used:
                free[reading(symbol)].append(j)
        for i, symbol in enumerate(these):
            if i not in pairs and (places := free.get(reading(symbol))):
                pairs[i] = places.popleft()
    return pairs


def _module_of(symbol: Symbol) -> str | None:
    """Return the module of a single `from` statement, None for any other import."""
    one = len(symbol.nodes) == 1 and isinstance(symbol.nodes[0], ast.ImportFrom)
    return f"from {symbol.imports[0].module}" if one else None


def _place_of(new: Symbol, there: int, siblings: list[Symbol], at: list[int | None]) -> int | None:
    """Return where a symbol goes among others: after the one that it follows in its own file, `there`.

    It goes below what it needs when it runs, and above what needs it then. at: of each sibling its index in the other
    file. None where it fits nowhere.
    """
    above = [i for i, x in enumerate(siblings) if x.needs & new.names]
    below = [i for i, x in enumerate(siblings, 1) if x.names & new.needs]
    low = max([_end_of_preamble(new, siblings), *below])
    high = min([len(siblings) - 1, *above])
    if low > high:
        return None
    indices = {x: i for i, x in enumerate(at) if x is not None}
    over, under = [x for x in indices if x < there], [x for x in indices if x > there]
    beside = indices[max(over)] + 1 if over else indices[min(under)]
    if is_definition(new):
        while beside < len(at) and at[beside] is None and is_definition(siblings[beside]):
            beside += 1  # what the user put there stays first
    return min(max(beside, low), high)


def _end_of_preamble(symbol: Symbol, siblings: Iterable[Symbol]) -> int:
    """Return the first index for a symbol: below the docstring and the imports of `__future__`."""
    keys, future = {HEAD, HEADER, DOC}, _is_future(symbol)
    top = [i + 1 for i, x in enumerate(siblings) if x.key in keys or (not future and _is_future(x))]
    return max(top, default=0)


def _is_future(symbol: Symbol) -> bool:
    return any(x.module == "__future__" for x in symbol.imports)


_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Assert, ast.Delete)
Pair = tuple[Spot, Spot]  # a symbol in base, and as the template has it


def key_of(pair: Pair) -> str:
    """Return the path of a symbol, in base where that has it."""
    return pair[0].path or pair[1].path


def paths_of(pair: Pair) -> set[str]:
    """Return its paths in both files."""
    return {x.path for x in pair if x.symbol}


def is_changed(pair: Pair) -> bool:
    """Return whether a symbol differs; of a class that both have, its header or the comments above."""
    old, new = pair
    a, b = old.symbol, new.symbol
    if a and b and a.members and b.members:
        return a.comments != b.comments or not a.members[0].says_as(b.members[0])
    return differ(a, b)


def differ(a: Symbol | None, b: Symbol | None) -> bool:
    """Return whether two symbols say something else, or one file lacks it."""
    return not a.same(b) if a and b else a is not b


def touches(pair: Pair, place: Reach) -> bool:
    """Return whether a symbol is in a place; of a class that both have, its header and the comments above."""
    header = both_have_members(*pair)
    for spot, (first, end) in zip(pair, place, strict=True):
        if spot.symbol:
            members = spot.symbol.members
            body = members[0].body if header and members else spot.symbol.body
            stop = spot.row + len(spot.symbol.lead) + len(body)
            if spot.row < max(end, first + (first > spot.row)) and first < stop:
                return True
    return False


def binds(spot: Spot, name: str, whole: bool = False) -> bool:
    """Return whether a symbol binds a name. whole: whether it is what has this path, or an import of the name."""
    if not spot.symbol:
        return False
    return spot.path == name if whole and not spot.symbol.imports else name in spot.symbol.names


def uses(spot: Spot, name: str) -> bool:
    """Return whether the text of a symbol has a word."""
    body = spot.symbol.body if spot.symbol else []
    return bool(re.search(rf"\b{name}\b", "".join(body)))


def bindings_at(spot: Spot) -> list[Binding]:
    """Return what a symbol imports."""
    return spot.symbol.imports if spot.symbol else []


def count_definitions(lines: list[str]) -> Counter[str]:
    """Return how often each path is a definition without decorators, or a name that is imported from another place."""
    paths: Counter[str] = Counter()
    imported = set()
    for spot, _ in pair_spots(lines, lines):
        if spot.symbol and is_definition(spot.symbol):
            paths[spot.path] += not getattr(spot.symbol.nodes[0], "decorator_list", [])
        imported |= {
            (spot.scope + x.top, x.module, x.top if x.alias == x.name else x.name)
            for x in bindings_at(spot)
        }
    return paths + Counter(name for name, _, _ in imported)


def count_statements(lines: list[str], path: str) -> Counter[str]:
    """Return how often the symbols of a path hold each statement that does something, wherever in them."""
    nodes = [y for x in find_spots(lines, path) if x.symbol for y in x.symbol.nodes]
    return Counter(ast.unparse(y) for x in nodes for y in ast.walk(x) if isinstance(y, _SIMPLE))


def parameters_of(symbol: Symbol | None) -> str | None:
    """Return the parameters of a function as text; None for anything else."""
    match symbol.nodes if symbol else []:
        case [node] if isinstance(node, FUNCTIONS):
            return f"({ast.unparse(node.args)})"
    return None
