"""Where a new symbol goes."""

from dataclasses import dataclass

from redco_new.merge.imports import is_future
from redco_new.merge.names import eager
from redco_new.merge.symbols import DOC, HEAD, HEADER, Symbol


@dataclass(frozen=True, eq=False)
class Item:
    """A symbol of the result: what it says, its lines, its place in the template, ours if any."""

    symbol: Symbol
    lead: list[str]
    body: list[str]
    theirs_at: int | None
    ours: Symbol | None = None

    @property
    def lines(self) -> list[str]:
        return self.lead + self.body


def place(new: Item, items: list[Item]) -> bool:
    """Put `new` after the symbol that it follows in the template; False if it fits nowhere.

    It fits below what it needs when it runs, and above what needs it then.
    """
    needs, first = eager(new.symbol.nodes), after_preamble(items, is_future(new.symbol))
    below = [i + 1 for i, item in enumerate(items) if item.symbol.names & needs]
    above = [i for i, item in enumerate(items) if eager(item.symbol.nodes) & new.symbol.names]
    low, high = max([first, *below]), min([len(items) - 1, *above])
    if low > high:
        return False
    items.insert(min(max(neighbour(new, items), low), high), new)
    return True


def neighbour(new: Item, items: list[Item]) -> int:
    """The place after the nearest symbol above it in the template, else before the nearest below."""
    known = {item.theirs_at: i for i, item in enumerate(items) if item.theirs_at is not None}
    above = [at for at in known if at < new.theirs_at]
    below = [at for at in known if at > new.theirs_at]
    return known[max(above)] + 1 if above else known[min(below)]


def after_preamble(items: list[Item], future: bool) -> int:
    """The first place for a symbol: below the docstring, and below `__future__` unless it is that."""
    keys = {HEAD, HEADER, DOC}
    top = [i for i, x in enumerate(items) if x.symbol.key in keys]
    top += [i for i, x in enumerate(items) if is_future(x.symbol) and not future]
    return max(top, default=-1) + 1
