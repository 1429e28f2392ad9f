"""One symbol of a file as another file has it, and nothing else changed."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

from redco_merge.align import Item, insert_symbol, match_symbols
from redco_merge.body import merge_body, merge_lead
from redco_merge.names import attribute_uses
from redco_merge.result import WHOLE
from redco_merge.sides import Side, read_sides, without_gap
from redco_merge.source import decode_source
from redco_merge.symbols import Symbol, lines_of, text_for_reader
from redco_merge.verify import Edit, edit_faults


class CannotTake(Exception):
    """The reason why a symbol cannot be as in the other file; "" if it is the conflict's own."""


def take(
    ours: bytes, theirs: bytes, symbol: str, removes: bool = False, added: bool = False
) -> bytes | None:
    """Return `ours` with one symbol, comments above included, as in `theirs`.

    Of a class that both have it is the header alone: its members are symbols of their own.
    removes: the template removes it, and where `theirs` has none, so does the result.
    added: both sides added it, and all of a class is taken.
    None where this cannot be done with certainty, or breaks other code of the user's.
    """
    if symbol == WHOLE:
        return theirs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the parser, about the user's code
        try:
            content = _with_symbol_of(theirs, ours, symbol, removes, added)
            check_names(ours, theirs, content)
        except Exception:  # CannotTake, and all that a parser may raise
            return None
    return content


def _with_symbol_of(other: bytes, ours: bytes, symbol: str, removes: bool, added: bool) -> bytes:
    """Return `ours` with a symbol as in `other`, or without it where that `removes` it.

    Of a class that both have it is the header alone, unless both `added` it.
    Raises CannotTake, and what decoding and parsing raise.
    """
    sides = read_sides(*map(decode_source, (other, ours, other)))
    mine, new = _find_spot(sides.ours.symbols, symbol), _find_spot(sides.theirs.symbols, symbol)
    if not (new.symbol or removes):
        raise CannotTake("the template has no such symbol")
    both_added = added and symbol.partition(".")[0] not in sides.renames.values()
    whole = both_added or not _are_classes(mine.symbol, new.symbol)
    lines = without_gap(_swap(mine, new, whole), sides.ours)
    return _prove(ours, other, lines, _edit(symbol, mine, new, sides.renames, whole))


def without_edit(
    base: bytes, ours: bytes, theirs: bytes, symbol: str, owned: Iterable[str]
) -> bytes:
    """Return `ours` with the user's edit of a symbol undone.

    It is as in base then, or as in theirs where both added it.
    Only what is in conflict is undone, but all of an owned symbol.
    Raises CannotTake, and what decoding and parsing raise.
    """
    sides = read_sides(*map(decode_source, (base, ours, theirs)))
    files, names = (sides.base, sides.ours, sides.theirs), sides.renames
    old, mine, new = (_find_spot(side.symbols, symbol) for side in files)
    if not old.symbol:
        if not (mine.symbol and new.symbol):
            raise CannotTake("it is an import, or another name in the other file")
        lead = merge_lead([], mine.symbol.lead, new.symbol.lead)
        lines = mine.put(new.symbol.lead if lead is None else lead, new.symbol.body)
        return _prove(ours, theirs, lines, _edit(symbol, mine, new, names, whole=True))
    is_owned = symbol in {names.get(x, x) for x in owned}
    if not (mine.symbol and new.symbol) or is_owned:
        lines, whole = _swap(mine, old, whole=True), True
    else:
        lines = mine.put(*_undo(old.symbol, mine.symbol, new.symbol))
        whole = not _are_classes(old.symbol, mine.symbol, new.symbol)
    return _prove(ours, base, lines, _edit(symbol, mine, old, names, whole))


def _swap(ours: "Spot", other: "Spot", whole: bool) -> list[str]:
    """Return the lines of ours with a symbol as `other` has it. Raises CannotTake.

    whole: also the members of a class; else these stay.
    """
    if ours.scope != other.scope or not (ours.symbol or other.symbol):
        raise CannotTake("your file and the template have it in different places")
    if not ours.symbol:
        return ours.with_symbol_of(other)
    if not other.symbol:
        return ours.put([], [])
    lead = (ours.symbol if ours.symbol.comments == other.symbol.comments else other.symbol).lead
    if whole or not (ours.symbol.members and other.symbol.members):
        return ours.put(lead, other.symbol.body)
    return ours.put(lead, _with_header(ours.symbol, ours.symbol.members, other.symbol.members[0]))


def _undo(base: Symbol, ours: Symbol, theirs: Symbol) -> tuple[list[str], list[str]]:
    """Return the lead and the body of ours; each as in base where it cannot be merged.

    Of a class it is the header alone: its members are symbols of their own.
    """
    in_conflict = merge_lead(base.lead, ours.lead, theirs.lead) is None
    lead = (base if in_conflict else ours).lead
    if not (base.members and ours.members and theirs.members):
        return lead, _unless_in_conflict(base, ours, theirs).body
    header = _unless_in_conflict(base.members[0], ours.members[0], theirs.members[0])
    return lead, _with_header(ours, ours.members, header)


def _unless_in_conflict(base: Symbol, ours: Symbol, theirs: Symbol) -> Symbol:
    """Return ours if it can be merged, else base."""
    return base if merge_body(base, ours, theirs) is None else ours


def _with_header(ours: Symbol, members: list[Symbol], header: Symbol) -> list[str]:
    """Return the body of a class of ours, which has these members, below another header."""
    return header.body + ours.body[len(members[0].body) :]


def _are_classes(*symbols: Symbol | None) -> bool:
    """Return whether all of these are there and have members."""
    return all(symbol and symbol.members for symbol in symbols)


def _edit(symbol: str, ours: "Spot", other: "Spot", names: dict[str, str], whole: bool) -> Edit:
    """Return what is to be changed, for the verifier. names: old -> new, as the user renamed."""
    mine, new = (text_for_reader([x.symbol] if x.symbol else []) for x in (ours, other))
    return Edit(symbol, whole, mine, new, names)


def _prove(ours: bytes, other: bytes, lines: list[str], edit: Edit) -> bytes:
    """Return `lines` as bytes of ours. Raises CannotTake where more than `edit` differs."""
    content = decode_source(ours).encode(lines)
    if wrong := edit_faults(ours, other, content, edit):
        raise CannotTake(wrong[0])
    return content


def check_names(ours: bytes, theirs: bytes, result: bytes) -> None:
    """Raise CannotTake if `result` uses a name that it lacks or defines later, and no side did."""
    o, t, r = (Side(decode_source(side).lines) for side in (ours, theirs, result))
    if names := r.unbound - o.unbound - t.unbound:
        raise CannotTake(f"your file still uses {', '.join(sorted(names))}")
    if names := r.early - o.early - t.early:
        raise CannotTake(f"your file would use {', '.join(sorted(names))} before defining it")
    gone = {name for _, name in o.members - r.members} - {name for _, name in r.members}
    in_result, in_theirs = attribute_uses(r.text), attribute_uses(t.text)
    if names := {x for x in gone if in_result[x] > in_theirs[x]}:
        raise CannotTake(f"your file still uses {', '.join(sorted(names))}")


@dataclass(frozen=True)
class Spot:
    """Where a symbol of a file stands, or would.

    scope: the path of its class, with a dot; "" for the file.
    siblings: the symbols of that scope.
    symbol: None where the file lacks it.
    above: the lines of the file before the scope.
    below: the lines of the file after the scope.
    """

    scope: str
    siblings: list[Symbol]
    symbol: Symbol | None
    above: list[str]
    below: list[str]

    def put(self, lead: list[str], body: list[str]) -> list[str]:
        """Return the lines of the file with these in place of the symbol."""
        lines = list(self.above)
        for sibling in self.siblings:
            lines += [*lead, *body] if sibling is self.symbol else sibling.lines
        return lines + self.below

    def with_symbol_of(self, other: "Spot") -> list[str]:
        """Return the lines of the file with the symbol of `other`, after its neighbour there.

        Raises CannotTake where it fits nowhere.
        """
        index = match_symbols(self.siblings, other.siblings)
        items = [Item(s, s.lead, s.body, index.get(i)) for i, s in enumerate(self.siblings)]
        there = next(i for i, s in enumerate(other.siblings) if s is other.symbol)
        new = other.siblings[there]
        at = insert_symbol(new, new.body, there, items)
        if at is None:
            raise CannotTake("it would be used before it is defined")
        items[at + 1] = _spaced(items[at + 1], other.siblings)
        return [*self.above, *(line for item in items for line in item.lines), *self.below]


def _spaced(item: Item, others: list[Symbol]) -> Item:
    """Return `item` with the blank lines that it has in the other file, where they are more."""
    if item.theirs_at is None:
        return item
    like = others[item.theirs_at]
    more = like.comments == item.symbol.comments and len(like.lead) > len(item.lead)
    return replace(item, lead=like.lead) if more else item


def _find_spot(symbols: list[Symbol], path: str) -> Spot:
    """Return the one place of `path`. Raises CannotTake where it has several, or is an import."""
    spot, *more = find_spots(symbols, path)
    if more:
        raise CannotTake("it is defined in several places")
    if spot.symbol and spot.symbol.imports:
        raise CannotTake("an import is merged with the others")
    return spot


def find_spots(
    symbols: list[Symbol],
    path: str,
    scope: str = "",
    above: Iterable[str] = (),
    below: Iterable[str] = (),
) -> list[Spot]:
    """Return the places of `path`: the symbols that have it, else the classes that may hold it.

    scope: as in `Spot`, of `symbols`.
    above: as in `Spot`.
    below: as in `Spot`.
    """
    here, inside = [], []
    for i, symbol in enumerate(symbols):
        if symbol.key == path:
            here.append(Spot(scope, symbols, symbol, list(above), list(below)))
        elif symbol.members and path.startswith(f"{symbol.key}."):
            over = [*above, *lines_of(symbols[:i]), *symbol.lead]
            under = [*lines_of(symbols[i + 1 :]), *below]
            rest, inner = path.removeprefix(f"{symbol.key}."), f"{scope}{symbol.key}."
            inside += find_spots(symbol.members, rest, inner, over, under)
    return here + inside or [Spot(scope, symbols, None, list(above), list(below))]
