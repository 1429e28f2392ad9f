"""Three-way merge of one statement by the elements of its brackets: arguments, entries, names.

Both sides may change elements of one call, list, set, dict or import; the rest of the statement is
to be the same on all sides, or what only one side changed.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from redco_merge.brackets import (
    Element,
    Group,
    Part,
    Unclear,
    Words,
    frame_of,
    key_of,
    read_brackets,
    words_of,
)
from redco_merge.line_merge import Overlap, merge_like_git
from redco_merge.statements import Word, remarks_of


def merge_statement_words(base: Words, ours: Words, theirs: Words) -> list[Word] | None:
    """Return the words of a statement with the changes of both sides; None where these overlap."""
    sides = [list(side) for side in (base, ours, theirs)]
    try:
        if all(len(side) == 1 for side in sides):
            return [_merge_text(*(side[0] for side in sides))]
        merged = words_of(_merge_parts(*(read_brackets(side) for side in sides)))
    except Unclear:
        return None
    b, o, t, m = (_remarks(side) for side in (*sides, merged))
    return merged if m in (o + t - b, o | t) else None


def _merge_text(base: Word, ours: Word, theirs: Word) -> Word:
    """Merge a docstring or a name, of which one side has changed no more than the blanks. Raises Unclear."""
    b, o, t = (word.text.split() for word in (base, ours, theirs))
    if t in (b, o):
        return ours
    if o != b:
        raise Unclear
    return theirs._replace(space=ours.space)


def _remarks(words: Words) -> Counter[str]:
    """Return the comments between words, which go with the word behind them."""
    return Counter(x for word in words[1:] for x in remarks_of(word.space))


def _merge_parts(
    base: Sequence[Part], ours: Sequence[Part], theirs: Sequence[Part]
) -> Sequence[Part]:
    """Merge parts: what is outside of brackets is the same on both sides, or one side has changed all of it."""
    b, o, t = key_of(base), key_of(ours), key_of(theirs)
    if t in (b, o):
        return ours
    if o == b:
        return theirs
    frames = [frame_of(side) for side in (base, ours, theirs)]
    brackets = [[x for x in frame if len(x) > 1] for frame in frames]
    if frames[1] != frames[2] or brackets[0] != brackets[1]:
        raise Unclear
    groups = iter([part for part in base if isinstance(part, Group)])
    merged: list[Part] = []
    for y, z in zip(ours, theirs, strict=True):
        if isinstance(y, Group) and isinstance(z, Group):
            merged.append(_merge_groups(next(groups), y, z))
        else:
            merged.append(y)
    return merged


def _merge_groups(base: Group, ours: Group, theirs: Group) -> Group:
    """Merge brackets element by element. Raises Unclear, wherever both sides changed what its place explains."""
    sides = [list(group.elements) for group in (base, ours, theirs)]
    if not base.named:
        _check_places(*([x for x in side if not _is_named(x)] for side in sides))

    def resolve(overlap: Overlap) -> list[Element]:
        b, o, t = (side[slice(*at)] for side, at in zip(sides, overlap, strict=True))
        return _merge_elements(b, o, t)

    merged = merge_like_git(sides[0], sides[1], sides[2], lambda x: x.key, resolve)
    if merged is None or _most_of_one(merged) > max(map(_most_of_one, sides)):
        raise Unclear
    like = theirs if _spaces(ours) == _spaces(base) else ours
    spaces = [words_of(x.parts)[0].space for x in like.elements]
    spaced = [_spaced(x, i, spaces) for i, x in enumerate(merged)]
    comma = like.comma or (base.comma and len(spaced) == 1)
    return Group(like.opens, like.closes, tuple(spaced), comma, base.named)


def _check_places(base: list[Element], ours: list[Element], theirs: list[Element]) -> None:
    """Raise Unclear where both sides changed a tuple, a list or the arguments of a call that have no name.

    What is inside of a bracket in one of these is judged there.
    """
    b, o, t = ([x.key for x in side] for side in (base, ours, theirs))
    if o == t:
        return
    if len(b) == len(o) == len(t):
        b, o, t = ([_frame(x) for x in side] for side in (base, ours, theirs))
    if b not in (o, t):
        raise Unclear


def _frame(element: Element) -> tuple[str, ...]:
    return tuple(text for part in frame_of(element.parts) for text in part)


def _most_of_one(elements: Sequence[Element]) -> int:
    """Return how often the most frequent element is there, as far as its name tells."""
    return max(Counter(_name(x) for x in elements).values(), default=1)


def _merge_elements(
    base: list[Element], ours: list[Element], theirs: list[Element]
) -> list[Element]:
    """Merge elements that both sides changed, or put new ones in one place. Raises Unclear."""
    if len(base) == len(ours) == len(theirs):
        triples = zip(base, ours, theirs, strict=True)
        return [Element(tuple(_merge_parts(b.parts, o.parts, t.parts))) for b, o, t in triples]
    old = {x.key for x in base}
    mine, others = ([x for x in side if x.key not in old] for side in (ours, theirs))
    same = {x.key for x in mine} & {x.key for x in others}
    if {_name(x) for x in mine if x.key not in same} & {
        _name(x) for x in others if x.key not in same
    }:
        raise Unclear
    left = [{x.key for x in side} for side in (ours, theirs)]
    gone = [{_name(x) for x in base if x.key not in keys} for keys in left]
    if gone[0] & {_name(x) for x in others} or gone[1] & {_name(x) for x in mine}:
        raise Unclear  # one side drops the entry that the other changes
    return _united(base, ours, theirs)


def _united(base: list[Element], ours: list[Element], theirs: list[Element]) -> list[Element]:
    """Return ours with what theirs edits or drops, and what is new there above what it precedes."""
    b, t = ({x.key for x in side} for side in (base, theirs))
    edited = {_name(x): x for x in theirs if x.key not in b}
    latest = [x if x.key in t or x.key not in b else edited.get(_name(x)) for x in ours]
    there = {x.key for x in latest if x is not None}
    below, above = None, defaultdict(list)  # by the key of what they precede, the last one first
    for x in reversed(theirs):
        if x.key in there:
            below = x.key
        elif x.key not in b:
            above[below].append(x)
    merged: list[Element] = []
    for x in filter(None, latest):
        merged += [*reversed(above.pop(x.key, [])), x]
    merged += reversed(above[None])
    in_order = all(_rises([_sort_key(x) for x in side]) for side in (ours, theirs))
    return sorted(merged, key=_sort_key) if in_order else merged


def _sort_key(element: Element) -> tuple[str, ...]:
    return tuple(text.casefold() for text in element.key)


def _rises(values: list[tuple[str, ...]]) -> bool:
    return len(values) > 1 and values == sorted(values)


def _name(element: Element) -> tuple[str, ...]:
    """Return what may be in a bracket only once: a keyword, a key of a dict, a whole entry."""
    key = element.key
    if len(key) > 1 and key[1] in ("=", ":"):
        return key[:1]
    return key


def _is_named(element: Element) -> bool:
    key = element.key
    return len(key) > 2 and key[1] == "=" and key[2] != "="


def _spaces(group: Group) -> list[str]:
    return [word.space for word in words_of([group])[1:]]


def _spaced(element: Element, index: int, spaces: list[str]) -> Element:
    """Return an element with the space before it that the elements of another bracket have."""
    if not spaces:
        return element
    first, *rest = element.parts
    words = words_of([first])
    if "#" in words[0].space:
        return element
    space = spaces[0] if index == 0 else (spaces[1] if len(spaces) > 1 else spaces[0] or " ")
    if isinstance(first, Word):
        return Element((first._replace(space=space), *rest))
    return Element((_with_space(first, space), *rest))


def _with_space(group: Group, space: str) -> Group:
    opens = group.opens._replace(space=space)
    return Group(opens, group.closes, group.elements, group.comma, group.named)
