"""The merge of a place statement by statement: a statement that begins as another is that one, edited.

Each side keeps, edits or drops each statement of base, and puts new ones between. What touches is no
conflict: one side may drop a statement beside which the other puts a new one, or both drop it.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from redco_merge.both_new import both_new, defined_names
from redco_merge.elements import merge_statement_words
from redco_merge.import_block import is_import, merge_import_block
from redco_merge.matching import changes, partners
from redco_merge.statements import Statement, remarks_of

Lines = list[str]
Merged = list[Statement | Lines]
Place = list[Statement]
Keys = list[Hashable]
_CLAUSES = [("else",), ("elif",), ("except",), ("finally",)]


@dataclass
class _Hunk:
    """base[start:stop] becomes `new`; or `both`, where both sides write anew."""

    start: int
    stop: int
    new: Place
    both: Merged | None = None


def merge_by_heads(base: Place, ours: Place, theirs: Place) -> Merged | None:
    """Return a place with the changes of both sides; None where these are unclear."""
    keys = _keys_by_head(base, ours, theirs)
    places = [[keys[id(x)] for x in side] for side in (base, ours, theirs)]
    in_ours, in_theirs = (partners(places[0], side) for side in places[1:])
    mine, others = _hunks(places[0], places[1], ours), _hunks(places[0], places[2], theirs)
    if _loses_block(ours, in_ours, in_theirs) or _loses_block(theirs, in_theirs, in_ours):
        return None
    if not all(_settle(base, h, k) for h, k in _touching(mine, others)):
        return None
    new = sorted([*mine, *others], key=lambda h: (h.start, h.stop > h.start))
    merged: Merged = []
    for i, old in enumerate([*base, None]):
        merged += [x for h in new if h.start == i for x in (h.both or h.new)]
        if old is None:
            break
        one = ours[in_ours[i]] if i in in_ours else None
        other = theirs[in_theirs[i]] if i in in_theirs else None
        if one and other:
            both = _merge_one(old, one, other)
            if both is None:
                return None
            merged.append(both)
        elif any(x and x.key != old.key for x in (one, other)):
            return None  # one side drops what the other edits
    return merged


def _keys_by_head(*sides: Place) -> dict[int, Hashable]:
    """Return what makes two statements one, by their identity.

    It is how they begin where base has one that begins so, else all that they say.
    """
    base = [x.head for x in sides[0]]
    keys: dict[int, Hashable] = {id(x): head for x, head in zip(sides[0], base, strict=True)}
    for side in sides[1:]:
        heads = [x.head for x in side]
        in_base = set(partners(base, heads).values())
        keys |= {id(x): heads[i] if i in in_base else x.key for i, x in enumerate(side)}
    return keys


def _hunks(base: Keys, side: Keys, place: Place) -> list[_Hunk]:
    """Return what a place has for what of base, by the keys of both."""
    return [_Hunk(x.start, x.end, place[x.new_start : x.new_end]) for x in changes(base, side)]


def _touching(mine: list[_Hunk], others: list[_Hunk]) -> Iterator[tuple[_Hunk, _Hunk]]:
    first = 0
    for h in mine:
        while first < len(others) and others[first].stop < h.start:
            first += 1
        for k in others[first:]:
            if k.start > h.stop:
                break
            yield h, k


def _loses_block(side: Place, partner: dict[int, int], in_other: dict[int, int]) -> bool:
    """Return whether something new of a side is in a block whose header the other side drops."""
    in_base = {j: i for i, j in partner.items()}
    return any(
        j not in in_base and outer in in_base and in_base[outer] not in in_other
        for j, outer in enumerate(_blocks_of(side))
    )


def _blocks_of(statements: list[Statement]) -> list[int | None]:
    """Return for each statement the one, among these, whose block it is in; None for those outside.

    An `else` or the like is in the block that it goes on with.
    """
    above: list[int] = []
    blocks: list[int | None] = []
    for i, x in enumerate(statements):
        while above and not _is_inside(x, statements[above[-1]]):
            above.pop()
        blocks.append(above[-1] if above else None)
        if x.words:
            above.append(i)
    return blocks


def _is_inside(x: Statement, header: Statement) -> bool:
    if x.indent == header.indent:
        return x.says[:1] in _CLAUSES
    return x.indent.startswith(header.indent)


def _settle(base: Place, mine: _Hunk, other: _Hunk) -> bool:
    """Return whether two changes that touch can both be made. Where both write anew, `mine` gets both."""
    old = base[max(mine.start, other.start) : min(mine.stop, other.stop)]
    if not mine.new or not other.new:
        new = mine.new or other.new
        inside = any(
            h.start == h.stop and k.start < h.start < k.stop
            for h, k in ((mine, other), (other, mine))
        )
        decorates = new and new[-1].says[:1] == ("@",)  # what the other side drops
        return not inside and not decorates and not (new and old and _may_be_edited(old, new))
    if (mine.start, mine.stop) == (other.start, other.stop):
        mine.both = _both(old, mine.new, other.new)
        other.new = []
        return mine.both is not None
    replaced = [h for h in (mine, other) if h.start < h.stop]
    return not old and bool(replaced) and all(len(h.new) <= h.stop - h.start for h in replaced)


def _may_be_edited(old: Place, new: Place) -> bool:
    """Return whether a side may have made `old` to `new`, and not dropped it: definitions of other names are no edit."""
    return not defined_names(new) or bool(
        defined_names(new) & {text for x in old for text in x.says}
    )


def _both(base: Place, ours: Place, theirs: Place) -> Merged | None:
    """Return what both sides write in one place, of which nothing of base is left."""
    if [x.key for x in ours] == [x.key for x in theirs]:
        return list(ours)
    if len(base) == len(ours) == len(theirs) == 1 and ours[0].head == theirs[0].head:
        one = _merge_one(base[0], ours[0], theirs[0])
        return None if one is None else [one]
    if (merged := merge_import_block(base, ours, theirs)) is not None:
        return merged
    return None if base else both_new(ours, theirs)


def _merge_one(base: Statement, ours: Statement, theirs: Statement) -> Statement | Lines | None:
    """Merge one statement, and the comments above and behind it apart from its words; None where that is unclear."""
    if theirs.key in (base.key, ours.key):
        same = ours.key == theirs.key and ours.lines == base.lines
        return theirs if same else ours
    if ours.key == base.key:
        return theirs
    if not base.words:
        return None  # comments at the end
    words = merge_statement_words(base.words, ours.words, theirs.words)
    above = _changed(*(x.words[0].space for x in (base, ours, theirs)))
    tail = _changed(base.tail, ours.tail, theirs.tail)
    if words is None or above is None or tail is None:
        return None
    if is_import(base) and not base.remarks == ours.remarks == theirs.remarks:
        return None  # a remark of an import is about its names
    text = above + words[0].text + "".join(word.space + word.text for word in words[1:]) + tail
    return text.splitlines(keepends=True)


def _changed(base: str, ours: str, theirs: str) -> str | None:
    """Return the blanks and comments that one side has changed, blanks aside; None where both have."""
    b, o, t = (remarks_of(x) for x in (base, ours, theirs))
    if t in (b, o):
        return ours
    return theirs if o == b else None
