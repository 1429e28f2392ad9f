"""A file described by its symbols: what changed, and the text of one."""

import warnings
from collections import Counter
from collections.abc import Hashable, Iterator
from itertools import takewhile

from redco_merge.matching import shared_stretches
from redco_merge.result import WHOLE, readable_text
from redco_merge.source import decode_source
from redco_merge.spots import find_spots, match_symbols
from redco_merge.symbols import HEADER, Symbol, symbols_of, text_for_reader

Change = tuple[str, str]  # "+", "-" or "~", and the dotted path of a symbol


def changed_symbols(before: bytes, after: bytes) -> list[Change]:
    """Return what changed from one Python file to another, in the order of the new one.

    Layout is no change. Members of a class that both have are listed one by one; all imports as
    ("~", "imports"); a file of which a side does not parse as ("~", WHOLE).
    """
    old, new = _symbols_or_none(before), _symbols_or_none(after)
    if old is None or new is None:
        return [("~", WHOLE)] if before != after else []
    changes = list(_changes_of_scope("", old, new))
    if _what_imports_say(old) != _what_imports_say(new):
        changes.insert(0, ("~", "imports"))
    return list(dict.fromkeys(changes))


def changed_lines(before: bytes, after: bytes) -> tuple[int, int]:
    """Return how many lines of a text file are (new, gone); line endings are no change."""
    old, new = ([x.rstrip(b"\r\n") for x in side.splitlines(True)] for side in (before, after))
    same = sum(size for _, _, size in shared_stretches(old, new))
    return len(new) - same, len(old) - same


def symbol_text(content: bytes, symbol: str) -> str | None:
    """Return the text of a symbol as `Conflict.theirs` shows it.

    None where the file lacks the symbol or is not Python.
    """
    if symbol == WHOLE:
        return readable_text(content)
    symbols = _symbols_or_none(content)
    if symbols is None:
        return None
    lines = decode_source(content).lines
    same_path = [x.symbol for x in find_spots(lines, symbol) if x.symbol]
    importing = [x for x in _imports(symbols) if any(y.alias == symbol for y in x.imports)]
    return text_for_reader(same_path or importing) or None


def _symbols_or_none(content: bytes) -> list[Symbol] | None:
    """Return the symbols of a file; None if it is not Python."""
    with warnings.catch_warnings(action="ignore"):  # of the parser, about the user's code
        try:
            return symbols_of(decode_source(content).lines)
        except Exception:  # a parser has many ways to fail
            return None


def _changes_of_scope(scope: str, before: list[Symbol], after: list[Symbol]) -> Iterator[Change]:
    """Yield what changed of the symbols of one scope but the imports. scope: its path, with a dot.

    Both sides have the first one, HEAD or HEADER; what is gone comes after what it stood below.
    """
    before, after = ([x for x in side if not x.imports] for side in (before, after))
    in_both = match_symbols(before, after)
    old_of = {new: old for old, new in in_both.items()}
    for j, new in enumerate(after):
        i = old_of.get(j)
        if i is None:
            yield "+", _path_of(scope, new)
            continue
        yield from _changes_of_symbol(scope, before[i], new)
        for k in takewhile(lambda k: k not in in_both, range(i + 1, len(before))):
            yield "-", _path_of(scope, before[k])


def _changes_of_symbol(scope: str, old: Symbol, new: Symbol) -> Iterator[Change]:
    path = _path_of(scope, new)
    if old.members and new.members:
        if old.comments != new.comments:
            yield "~", path
        yield from _changes_of_scope(f"{path}.", old.members, new.members)
    elif not old.same(new):
        yield "~", path


def _path_of(scope: str, symbol: Symbol) -> str:
    return f"{scope}{symbol.key}".removesuffix(f".{HEADER}")


def _what_imports_say(symbols: list[Symbol]) -> Counter[Hashable]:
    """Return what the imports of a file say, in any order: names, and comments."""
    says: Counter[Hashable] = Counter()
    for symbol in _imports(symbols):
        says.update(symbol.imports)
        says.update(symbol.comments)
        says.update(text for _, text in symbol.fingerprint.comments)
    return says


def _imports(symbols: list[Symbol]) -> Iterator[Symbol]:
    """Yield the imports of a file, those inside of classes too."""
    for symbol in symbols:
        if symbol.imports:
            yield symbol
        yield from _imports(symbol.members or [])
