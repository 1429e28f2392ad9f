"""A file told by its symbols: what changed, and the text of one."""

import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile

from redco_new.merge.align import match
from redco_new.merge.diff3 import blocks
from redco_new.merge.result import WHOLE, readable
from redco_new.merge.source import decode
from redco_new.merge.spot import spots
from redco_new.merge.symbols import HEADER, Symbol, shown, symbols_of

Change = tuple[str, str]  # "+", "-" or "~", and the dotted path of a symbol


def changed_symbols(before: bytes, after: bytes) -> list[Change]:
    """What changed from one Python file to another, in the order of the new one; layout is no change.

    Members of a class that both have are told one by one; all imports as ("~", "imports"); a file of
    which a side does not parse as ("~", WHOLE).
    """
    sides = parsed(before), parsed(after)
    if None in sides:
        return [("~", WHOLE)] if before != after else []
    found = list(changes("", *sides))
    if imported(sides[0]) != imported(sides[1]):
        found.insert(0, ("~", "imports"))
    return list(dict.fromkeys(found))


def changed_lines(before: bytes, after: bytes) -> tuple[int, int]:
    """How many lines of a text file are (new, gone); line endings are no change."""
    old, new = ([x.rstrip(b"\r\n") for x in side.splitlines(True)] for side in (before, after))
    same = sum(size for _, _, size in blocks(old, new, key=lambda line: line))
    return len(new) - same, len(old) - same


def symbol_text(content: bytes, symbol: str) -> str | None:
    """The text of a symbol as `Conflict.theirs` shows it; None where the file lacks it or is not Python."""
    if symbol == WHOLE:
        return readable(content)
    symbols = parsed(content)
    if symbols is None:
        return None
    found = [x.symbol for x in spots(symbols, symbol) if x.symbol]
    return shown(found or importing(symbols, symbol)) or None


def parsed(content: bytes) -> list[Symbol] | None:
    """The symbols of a file; None if it is not Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the parser, about the user's code
        try:
            return symbols_of(decode(content).lines)
        except Exception:  # a parser has many ways to fail
            return None


def changes(scope: str, before: list[Symbol], after: list[Symbol]) -> Iterator[Change]:
    """Of the symbols of one scope but the imports; scope: its path, with a dot.

    Both sides have the first one, HEAD or HEADER; what is gone is told after what it stood below.
    """
    in_both = match(before, after)
    old_of = {new: old for old, new in in_both.items()}
    for j, new in enumerate(after):
        i = old_of.get(j)
        yield from change(scope, None if i is None else before[i], new)
        gone = [] if i is None else takewhile(lambda k: k not in in_both, range(i + 1, len(before)))
        for k in gone:
            yield from change(scope, before[k], None)


def change(scope: str, old: Symbol | None, new: Symbol | None) -> Iterator[Change]:
    some = new or old
    path = f"{scope}{some.key}".removesuffix(f".{HEADER}")
    if some.imports:
        return
    if old is None or new is None:
        yield "+" if new else "-", path
    elif old.members and new.members:
        if old.comments != new.comments:
            yield "~", path
        yield from changes(f"{path}.", old.members, new.members)
    elif not old.same(new):
        yield "~", path


def imported(symbols: list[Symbol]) -> Counter:
    """What the imports of a file say, in any order: names, and comments."""
    return Counter(x for symbol in imports(symbols) for x in (*symbol.imports, *remarks(symbol)))


def remarks(symbol: Symbol) -> list[str]:
    return [*symbol.comments, *(text for _, text in symbol.print[1])]


def imports(symbols: list[Symbol]) -> Iterator[Symbol]:
    for symbol in symbols:
        if symbol.imports:
            yield symbol
        yield from imports(symbol.members or [])


def importing(symbols: list[Symbol], name: str) -> list[Symbol]:
    """The imports that bind `name`."""
    return [x for x in imports(symbols) if any(y.bound == name for y in x.imports)]
