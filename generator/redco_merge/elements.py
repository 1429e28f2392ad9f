"""One statement to which both sides added elements that have names: keyword arguments, entries, members of `__all__`.

What is in order is never woven: arguments, parameters, tuples and lists that both sides changed are a conflict.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from redco_merge.matching import with_added
from redco_merge.statements import CLOSE, OPEN, Word, remarks_of

Words = Sequence[Word]
Name = tuple[str, ...]


class Unclear(Exception):
    """Both sides changed the same place."""


@dataclass(frozen=True)
class Group:
    """A bracket with its elements.

    opens: the bracket.
    closes: the other one.
    elements: what is between two commas, each.
    comma: whether one is behind the last.
    """

    opens: Word
    closes: Word
    elements: tuple["Parts", ...]
    comma: bool


Parts = tuple[Word | Group, ...]


def merge_statement_words(base: Words, ours: Words, theirs: Words) -> list[Word] | None:
    """Return the words of a statement with what both sides added; None where they did anything else."""
    if any(remarks_of(word.space) for side in (base, ours, theirs) for word in side[1:]):
        return None
    try:
        b, o, t = (read_brackets(side) for side in (base, ours, theirs))
        return words_of(_merge_parts(b, o, t, base[0].text))
    except Unclear:
        return None


def read_brackets(words: Words) -> Parts:
    """Return words with each bracket as one part. Raises Unclear where brackets do not match."""
    stack: list[list[Word | Group]] = [[]]
    for word in words:
        if word.text in OPEN:
            stack += [[word], []]
        elif word.text in CLOSE:
            if len(stack) < 3:
                raise Unclear
            inside, (opens,) = stack.pop(), stack.pop()
            assert isinstance(opens, Word)
            stack[-1].append(_bracket(opens, word, inside))
        else:
            stack[-1].append(word)
    if len(stack) > 1:
        raise Unclear
    return tuple(stack[0])


def _bracket(opens: Word, closes: Word, inside: list[Word | Group]) -> Group:
    elements: list[list[Word | Group]] = [[]]
    for part in inside:
        if isinstance(part, Word) and part.text == ",":
            elements.append([])
        else:
            elements[-1].append(part)
    comma = len(elements) > 1 and not elements[-1]
    return Group(opens, closes, tuple(tuple(x) for x in elements if x), comma)


def words_of(parts: Parts) -> list[Word]:
    """Return what brackets were read from."""
    words: list[Word] = []
    for part in parts:
        if isinstance(part, Word):
            words.append(part)
            continue
        words.append(part.opens)
        for i, element in enumerate(part.elements):
            words += words_of(element)
            if i + 1 < len(part.elements) or part.comma:
                words.append(Word("", ","))
        words.append(part.closes)
    return words


def _key_of(parts: Parts) -> Name:
    return tuple(word.text for word in words_of(parts))


def _frame_of(parts: Parts) -> Name:
    """Return what is outside of brackets, and where these are."""
    return tuple(x.text if isinstance(x, Word) else f"{x.opens.text}..." for x in parts)


def _merge_parts(base: Parts, ours: Parts, theirs: Parts, keyword: str = "") -> Parts:
    """Merge parts that say the same outside of their brackets. Raises Unclear.

    keyword: the first word of a statement, of which these are all parts.
    """
    b, o, t = _key_of(base), _key_of(ours), _key_of(theirs)
    if t in (b, o):
        return ours
    if o == b:
        return theirs
    if not _frame_of(base) == _frame_of(ours) == _frame_of(theirs):
        raise Unclear
    merged: list[Word | Group] = []
    for x, y, z in zip(base, ours, theirs, strict=True):
        if isinstance(x, Group) and isinstance(y, Group) and isinstance(z, Group):
            y = _merge_groups(x, y, z, keyword)
        merged.append(y)
    return tuple(merged)


def _merge_groups(base: Group, ours: Group, theirs: Group, keyword: str) -> Group:
    """Merge brackets to which each side added other names, or of which each added to other elements."""
    b, o, t = (_by_name(x, keyword) for x in (base, ours, theirs))
    for side in (o, t):
        _check_added(list(b), side, base.opens.text, keyword)
    merged = {name: _merge_parts(b[name], o[name], t[name]) for name in b}
    for name in o.keys() & t.keys() - b.keys():
        if _key_of(o[name]) != _key_of(t[name]):
            raise Unclear
    order = with_added(b, list(o), list(t))
    if keyword == "__all__" and all(len(x) > 1 and [*x] == sorted(x) for x in (o, t)):
        order.sort()
    like = theirs if _spaces(ours) == _spaces(base) else ours
    spaces = [words_of(x)[0].space for x in like.elements]
    every = t | o | merged
    spaced = tuple(_spaced(every[name], i, spaces) for i, name in enumerate(order))
    return replace(like, elements=spaced, comma=like.comma or (base.comma and len(spaced) == 1))


def _by_name(group: Group, keyword: str) -> dict[Name, Parts]:
    """Return the elements of a bracket by what tells them apart: a name, or what stands there. Raises Unclear."""
    names = [_name(x, group.opens.text, keyword) or _frame_of(x) for x in group.elements]
    if len({*names}) < len(names):
        raise Unclear
    return dict(zip(names, group.elements, strict=True))


def _check_added(base: list[Name], side: dict[Name, Parts], opens: str, keyword: str) -> None:
    """Raise Unclear where a side dropped or moved an element, or added one that has a place."""
    if [x for x in side if x in base] != base:
        raise Unclear
    free = keyword not in ("def", "async")  # behind a star, parameters have no place
    for name, element in side.items():
        if name not in base and not (free and _name(element, opens, keyword)):
            raise Unclear
        free = free or name[:1] == ("*",)


def _name(element: Parts, opens: str, keyword: str) -> Name | None:
    """Return what may be in a bracket only once: a keyword, a key of a dict, a member of a set; None for what has a place."""
    key = _key_of(element)
    if keyword == "__all__":
        return key
    if opens == "{":
        return None if key[:1] == ("*",) else key[: key.index(":")] if ":" in key else key
    if key[:1] == ("lambda",):
        return None
    return key[:1] if key[1:2] in (("=",), (":",)) and key[2:3] != ("=",) else None


def _spaces(group: Group) -> list[str]:
    return [word.space for word in words_of((group,))[1:]]


def _spaced(element: Parts, index: int, spaces: list[str]) -> Parts:
    """Return an element with the space before it that the elements of another bracket have."""
    first, *rest = element
    space = spaces[0] if index == 0 else (spaces[1] if len(spaces) > 1 else spaces[0] or " ")
    if isinstance(first, Word):
        return (first._replace(space=space), *rest)
    return (replace(first, opens=first.opens._replace(space=space)), *rest)
