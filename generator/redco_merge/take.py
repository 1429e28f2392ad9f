"""The template's side of a symbol, which the user chose: in a file that is merged, and before it is."""

import warnings

from redco_merge.names import attribute_uses, unbound_names, used_before_defined
from redco_merge.result import WHOLE
from redco_merge.source import decode_source, plain_text
from redco_merge.spots import Spot, both_have_members, find_spots, pair_spots
from redco_merge.style import in_users_terms, without_gap
from redco_merge.symbols import text_for_reader
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
    with warnings.catch_warnings(action="ignore"):  # of the parser, about the user's code
        try:
            content = with_symbol_of(theirs, ours, symbol, removes, added)
            check_names(ours, theirs, content)
        except Exception:  # CannotTake, and all that a parser may raise
            return None
    return content


def with_symbol_of(theirs: bytes, ours: bytes, symbol: str, removes: bool, added: bool) -> bytes:
    """Return `ours` with a symbol as in `theirs`; the arguments are those of `take`.

    Raises CannotTake, and what decoding and parsing raise.
    """
    mine, other = decode_source(ours), decode_source(theirs)
    _, lines, renames = in_users_terms(other, mine, other)
    spot, new = _find_spot(mine.lines, symbol), _find_spot(lines, symbol)
    if not (new.symbol or removes):
        raise CannotTake("the template has no such symbol")
    if new.scope != spot.scope or not (new.symbol or spot.symbol):
        raise CannotTake("your file and the template have it in different places")
    both_added = added and symbol.partition(".")[0] not in renames.values()
    whole = both_added or not both_have_members(new, spot)
    taken = spot.like(new, whole)
    if taken is None:
        raise CannotTake("it would be used before it is defined")
    content = mine.encode(without_gap(taken, mine.lines))
    old, other_text = (text_for_reader([x.symbol] if x.symbol else []) for x in (spot, new))
    edit = Edit(symbol, whole, old, other_text, renames)
    if wrong := next(edit_faults(ours, theirs, content, edit), None):
        raise CannotTake(wrong)
    return content


def _find_spot(lines: list[str], path: str) -> Spot:
    """Return the one place of `path`. Raises CannotTake where it has several, or is an import."""
    spot, *more = find_spots(lines, path)
    if more:
        raise CannotTake("it is defined in several places")
    if spot.symbol and spot.symbol.imports:
        raise CannotTake("an import is merged with the others")
    return spot


def check_names(ours: bytes, theirs: bytes, result: bytes) -> None:
    """Raise CannotTake if `result` uses a name that it lacks or defines later, and no side did."""
    sides = [decode_source(side).lines for side in (ours, theirs, result)]
    o, t, r = map(plain_text, sides)
    if names := unbound_names(r) - unbound_names(o) - unbound_names(t):
        raise CannotTake(f"your file still uses {', '.join(sorted(names))}")
    if names := used_before_defined(r) - used_before_defined(o) - used_before_defined(t):
        raise CannotTake(f"your file would use {', '.join(sorted(names))} before defining it")
    had, _, has = map(_members, sides)
    gone = {name for _, name in had - has} - {name for _, name in has}
    in_result, in_theirs = attribute_uses(r), attribute_uses(t)
    if names := {x for x in gone if in_result[x] > in_theirs[x]}:
        raise CannotTake(f"your file still uses {', '.join(sorted(names))}")


def _members(lines: list[str]) -> set[tuple[str, str]]:
    """Return (path of its class, name) of every member."""
    spots = (new for _, new in pair_spots(lines, lines))
    return {(x.scope, name) for x in spots if x.scope and x.symbol for name in x.symbol.names}
