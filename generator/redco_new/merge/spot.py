"""One symbol of a file, found by its dotted path, and the file with another text there."""

from dataclasses import dataclass, replace

from redco_new.merge.align import match
from redco_new.merge.place import Item, place
from redco_new.merge.symbols import Symbol


class Stays(Exception):
    """A symbol cannot be taken; the message says why."""


@dataclass(frozen=True)
class Spot:
    """Where a symbol stands, or would.

    scope: the path of its class, with a dot; "" for the file.  siblings: the symbols of that scope.
    symbol: None where the file lacks it.  above, below: the lines of the file around the scope.
    """

    scope: str
    siblings: list[Symbol]
    symbol: Symbol | None
    above: list[str]
    below: list[str]

    def put(self, lead: list[str], body: list[str]) -> list[str]:
        """The lines of the file with these in place of the symbol."""
        each = [[*lead, *body] if s is self.symbol else s.lines for s in self.siblings]
        return [*self.above, *(line for lines in each for line in lines), *self.below]

    def added(self, other: "Spot") -> list[str]:
        """The lines of the file with the symbol of `other`, after its neighbour there. Raises Stays."""
        known = match(self.siblings, other.siblings)
        items = [Item(s, s.lead, s.body, known.get(i)) for i, s in enumerate(self.siblings)]
        at = other.siblings.index(other.symbol)
        new = Item(other.symbol, other.symbol.lead, other.symbol.body, at)
        if not place(new, items):
            raise Stays("it would be used before it is defined")
        below = items.index(new) + 1
        items[below] = spaced(items[below], other.siblings)
        return [*self.above, *(line for item in items for line in item.lines), *self.below]


def spaced(item: Item, others: list[Symbol]) -> Item:
    """`item` with the blank lines that it has in the other file, where they are more."""
    like = None if item.theirs_at is None else others[item.theirs_at]
    more = like and like.comments == item.symbol.comments and len(like.lead) > len(item.lead)
    return replace(item, lead=like.lead) if more else item


def spot(symbols: list[Symbol], path: str) -> Spot:
    """The one place of `path`. Raises Stays where it has several, or is an import."""
    found, *more = spots(symbols, path)
    if more:
        raise Stays("it is defined in several places")
    if found.symbol and found.symbol.imports:
        raise Stays("an import is merged with the others")
    return found


def spots(symbols: list[Symbol], path: str, scope: str = "", above=(), below=()) -> list[Spot]:
    """The places of `path`: of the symbols that have it, else of the classes that may hold it."""
    here, inside = [], []
    for i, symbol in enumerate(symbols):
        if symbol.key == path:
            here.append(Spot(scope, symbols, symbol, list(above), list(below)))
        elif symbol.members and path.startswith(f"{symbol.key}."):
            over = [*above, *lines_of(symbols[:i]), *symbol.lead]
            under = [*lines_of(symbols[i + 1 :]), *below]
            rest, inner = path.removeprefix(f"{symbol.key}."), f"{scope}{symbol.key}."
            inside += spots(symbol.members, rest, inner, over, under)
    if here or inside:
        return here + inside
    return [Spot(scope, symbols, None, list(above), list(below))]


def lines_of(symbols: list[Symbol]) -> list[str]:
    return [line for symbol in symbols for line in symbol.lines]
