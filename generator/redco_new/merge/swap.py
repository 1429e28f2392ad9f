"""The user's file with one symbol as another file has it, and nothing else changed."""

from collections.abc import Iterable

from redco_new.merge.coherence import Side
from redco_new.merge.engine import sides_of, without_gap
from redco_new.merge.revert import both_added, replaced, undone, with_header
from redco_new.merge.source import decode
from redco_new.merge.spot import Spot, Stays, spot
from redco_new.merge.symbols import shown
from redco_new.merge.uses import attributes, early
from redco_new.merge.verify import names_back
from redco_new.merge.verify_taken import Edit, faults


def without_edit(
    base: bytes, ours: bytes, theirs: bytes, symbol: str, owned: Iterable[str]
) -> bytes:
    """`ours` with the user's edit of a symbol undone: as in base, or as in theirs where both added it.

    Only what is in conflict is undone, but all of an owned symbol. Raises Stays, and what decoding
    and parsing raise.
    """
    sides, _, names = sides_of(*map(decode, (base, ours, theirs)))
    b, o, t = (spot(side.symbols, symbol) for side in (sides.base, sides.ours, sides.theirs))
    if not b.symbol:
        if not (o.symbol and t.symbol):
            raise Stays("it is an import, or another name in the other file")
        return proven(
            ours, theirs, o.put(*both_added(o.symbol, t.symbol)), edit(symbol, o, t, names)
        )
    if not (o.symbol and t.symbol) or symbol in {names.get(x, x) for x in owned}:
        return proven(ours, base, swapped(o, b), edit(symbol, o, b, names))
    lines = o.put(*undone(b.symbol, o.symbol, t.symbol))
    whole = not (b.symbol.members and o.symbol.members and t.symbol.members)
    return proven(ours, base, lines, edit(symbol, o, b, names, whole))


def with_symbol_of(other: bytes, ours: bytes, symbol: str, removes: bool, added: bool) -> bytes:
    """`ours` with a symbol as in `other`, or without it where that `removes` it. Raises as above.

    Of a class that both have it is the header alone, unless both `added` it.
    """
    sides, _, names = sides_of(*map(decode, (other, ours, other)))
    o, x = spot(sides.ours.symbols, symbol), spot(sides.theirs.symbols, symbol)
    if not (x.symbol or removes):
        raise Stays("the template has no such symbol")
    added = added and symbol.partition(".")[0] not in names.values()
    whole = added or not all(s.symbol and s.symbol.members for s in (o, x))
    lines = without_gap(swapped(o, x, whole), sides.ours)
    return proven(ours, other, lines, edit(symbol, o, x, names, whole))


def swapped(ours: Spot, other: Spot, whole: bool = True) -> list[str]:
    """The lines of ours with a symbol as `other` has it; its members stay unless `whole`. Raises Stays."""
    if ours.scope != other.scope or not (ours.symbol or other.symbol):
        raise Stays("your file and the template have it in different places")
    if not ours.symbol:
        return ours.added(other)
    if not other.symbol:
        return ours.put([], [])
    lead, body = replaced(ours.symbol, other.symbol)
    return ours.put(lead, body if whole else with_header(ours.symbol, other.symbol.members[0]))


def edit(symbol: str, ours: Spot, other: Spot, names: dict[str, str], whole: bool = True) -> Edit:
    mine, new = (shown(filter(None, [x.symbol])) for x in (ours, other))
    return Edit(names_back(symbol, names), whole, mine, new, names)


def proven(ours: bytes, other: bytes, lines: list[str], told: Edit) -> bytes:
    """`lines` as bytes of ours. Raises Stays if they differ from it in more than is told."""
    content = decode(ours).encode(lines)
    if wrong := faults(ours, other, content, told):
        raise Stays(wrong[0])
    return content


def coherent(ours: bytes, theirs: bytes, result: bytes) -> None:
    """Raises Stays where `result` uses a name that it lacks or defines later, and no side did."""
    o, t, r = (Side(decode(side).lines) for side in (ours, theirs, result))
    if names := r.unbound - o.unbound - t.unbound:
        raise Stays(f"your file still uses {', '.join(sorted(names))}")
    if names := early(r.text) - early(o.text) - early(t.text):
        raise Stays(f"your file would use {', '.join(sorted(names))} before defining it")
    gone = {name for _, name in o.members - r.members} - {name for _, name in r.members}
    if names := {x for x in gone if attributes(r.text)[x] > attributes(t.text)[x]}:
        raise Stays(f"your file still uses {', '.join(sorted(names))}")
