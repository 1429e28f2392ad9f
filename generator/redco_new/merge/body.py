"""Three-way merge of one symbol: of the comments above it, and of its text."""

from redco_new.merge.diff3 import diff3
from redco_new.merge.logical import fingerprint_of, merge_text, parses
from redco_new.merge.source import bare
from redco_new.merge.symbols import HEADER, Symbol, comments_of


def merge_lead(base: list[str], ours: list[str], theirs: list[str]) -> list[str] | None:
    """The blank lines and comments above a symbol; None where both changed the same comment.

    Where the template has the same comments and more blank lines, these are taken: a new symbol
    may now stand above this one.
    """
    b, o, t = (comments_of(side) for side in (base, ours, theirs))
    if t in (b, o):
        return theirs if bare(ours) == bare(base) and len(theirs) > len(ours) else ours
    return theirs if o == b else diff3(base, ours, theirs, key=str.strip)


def merge_body(base: Symbol, ours: Symbol, theirs: Symbol) -> list[str] | None:
    """The text of a symbol; None where both changed the same place, or the sum is not Python."""
    if theirs.print in (base.print, ours.print):
        return ours.body
    if ours.same_text(base):
        return theirs.body
    merged = merge_text(base.body, ours.body, theirs.body)
    if ours.print == base.print:  # laid out anew: try to keep that
        right = merged and parses(complete(ours, merged))
        same = right and fingerprint_of(merged) == theirs.print if ours.key != HEADER else False
        return merged if same else theirs.body
    return merged if merged is not None and parses(complete(ours, merged)) else None


def complete(symbol: Symbol, lines: list[str]) -> list[str]:
    """`lines` as something that can be parsed: the header of a class needs a body."""
    if symbol.key != HEADER:
        return lines
    indent = symbol.body[0][: len(symbol.body[0]) - len(symbol.body[0].lstrip())]
    return [*lines, f"{indent} pass\n"]
