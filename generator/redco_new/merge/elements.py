"""Three-way merge of one statement by the elements of its brackets: arguments, entries, names.

Both sides may change elements of one call, list, set, dict or import; the rest of the statement is
to be the same on all sides, or what only one side changed.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from redco_new.merge.line_merge import Overlap, merge_like_git
from redco_new.merge.deletions import wider_deletion
from redco_new.merge.prose import Unclear, merge_prose
from redco_new.merge.statements import CLOSE, OPEN, Word, remarks_of
from redco_new.merge.versions import higher_version

Words = Sequence[Word]


@dataclass(frozen=True)
class _Group:
    """A bracket with its elements.

    opens: the bracket.
    closes: the other one.
    elements: the words of each; a group is one of them.
    comma: whether one is behind the last.
    display: whether it is a list, a set, a dict, a tuple or an import: the order of new elements is no call's.
    """

    opens: Word
    closes: Word
    elements: tuple["_Element", ...]
    comma: bool
    display: bool


@dataclass(frozen=True, eq=False)
class _Element:
    parts: tuple["Word | _Group", ...]

    @cached_property
    def key(self) -> tuple[str, ...]:
        return tuple(word.text for word in _flat(self.parts))


_Part = Word | _Group


def merge_statement_words(base: Words, ours: Words, theirs: Words) -> list[Word] | None:
    """Return the words of a statement with the changes of both sides; None where these overlap."""
    sides = [list(side) for side in (base, ours, theirs)]
    try:
        if all(len(side) == 1 for side in sides):
            return [merge_prose(*(side[0] for side in sides))]
        merged = _flat(_merge_parts(*(_group(side) for side in sides)))
    except Unclear:
        return None
    b, o, t, m = (_remarks(side) for side in (*sides, merged))
    return merged if m in (o + t - b, o | t) else None


def _remarks(words: Words) -> Counter[str]:
    """Return the comments between words, which go with the word behind them."""
    return Counter(x for word in words[1:] for x in remarks_of(word.space))


def _group(words: list[Word]) -> tuple[_Part, ...]:
    """Return words with each bracket as one part. Raises Unclear where brackets do not match."""
    stack: list[list[_Part]] = [[]]
    for word in words:
        stack[-1].append(word)
        if word.text in OPEN:
            stack.append([])
        elif word.text in CLOSE:
            if len(stack) < 2:
                raise Unclear
            inside = stack.pop()[:-1]
            opens = stack[-1].pop()
            assert isinstance(opens, Word)
            stack[-1].append(_bracket(opens, word, inside, stack[-1]))
    if len(stack) > 1:
        raise Unclear
    return tuple(stack[0])


def _bracket(opens: Word, closes: Word, inside: list[_Part], before: list[_Part]) -> _Group:
    elements: list[list[_Part]] = [[]]
    for part in inside:
        if isinstance(part, Word) and part.text == ",":
            elements.append([])
        else:
            elements[-1].append(part)
    comma = len(elements) > 1 and not elements[-1]
    called = bool(before) and (isinstance(before[-1], _Group) or _is_callable(before[-1].text))
    chosen = tuple(_Element(tuple(x)) for x in elements if x)
    return _Group(opens, closes, chosen, comma, not called)


def _is_callable(text: str) -> bool:
    keywords = ("import", "in", "return", "yield", "and", "or", "not", "else", "if", "is", "lambda")
    return (text[:1].isalnum() or text[:1] == "_") and text not in keywords


def _flat(parts: Sequence[_Part]) -> list[Word]:
    words: list[Word] = []
    for part in parts:
        if isinstance(part, Word):
            words.append(part)
            continue
        words.append(part.opens)
        for i, element in enumerate(part.elements):
            words += _flat(element.parts)
            if i + 1 < len(part.elements) or part.comma:
                words.append(Word("", ","))
        words.append(part.closes)
    return words


def _key(parts: Sequence[_Part]) -> tuple[str, ...]:
    return tuple(word.text for word in _flat(parts))


def _merge_parts(
    base: Sequence[_Part], ours: Sequence[_Part], theirs: Sequence[_Part]
) -> Sequence[_Part]:
    """Merge parts: what is outside of brackets is the same on both sides, or one side has changed all of it."""
    b, o, t = _key(base), _key(ours), _key(theirs)
    if t in (b, o):
        return ours
    if o == b:
        return theirs
    if (higher := higher_version(_flat(base), _flat(ours), _flat(theirs))) is not None:
        return higher
    frames = [_frame(side) for side in (base, ours, theirs)]
    brackets = [[x for x in frame if len(x) > 1] for frame in frames]
    if frames[1] != frames[2] or brackets[0] != brackets[1]:
        if (side := wider_deletion(b, o, t)) is None:
            raise Unclear
        return ours if side == o else theirs
    groups = iter([part for part in base if isinstance(part, _Group)])
    merged: list[_Part] = []
    for y, z in zip(ours, theirs, strict=True):
        if isinstance(y, _Group) and isinstance(z, _Group):
            merged.append(_merge_groups(next(groups), y, z))
        else:
            merged.append(y)
    return merged


def holds_all(more: Words, less: Words) -> bool:
    """Return whether a statement is another with elements added to its brackets. Raises Unclear."""
    return _holds(_group(list(more)), _group(list(less)))


def _holds(more: Sequence[_Part], less: Sequence[_Part]) -> bool:
    if _frame(more) != _frame(less):
        return False
    for big, small in zip(more, less, strict=True):
        if isinstance(big, _Group) and isinstance(small, _Group):
            left = iter(big.elements)
            inside = all(any(_holds(x.parts, y.parts) for x in left) for y in small.elements)
            if not inside or bool(small.elements) != bool(big.elements):
                return False
    return True


def _frame(parts: Sequence[_Part]) -> list[tuple[str, ...]]:
    """Return what is outside of brackets, and where these are."""
    return [(x.text,) if isinstance(x, Word) else (x.opens.text, x.closes.text, "") for x in parts]


def _merge_groups(base: _Group, ours: _Group, theirs: _Group) -> _Group:
    """Merge brackets element by element. Raises Unclear."""
    sides = [list(group.elements) for group in (base, ours, theirs)]

    def resolve(overlap: Overlap) -> list[_Element]:
        b, o, t = (side[slice(*at)] for side, at in zip(sides, overlap, strict=True))
        return _merge_elements(b, o, t, base.display)

    merged = merge_like_git(sides[0], sides[1], sides[2], lambda x: x.key, resolve)
    if merged is None or _most_of_one(merged) > max(map(_most_of_one, sides)):
        raise Unclear
    like = theirs if _spaces(ours) == _spaces(base) else ours
    spaces = [_flat(x.parts)[0].space for x in like.elements]
    spaced = [_spaced(x, i, spaces) for i, x in enumerate(merged)]
    comma = like.comma or (base.comma and len(spaced) == 1)
    return _Group(like.opens, like.closes, tuple(spaced), comma, base.display)


def _most_of_one(elements: Sequence[_Element]) -> int:
    """Return how often the most frequent element is there, as far as its name tells."""
    return max(Counter(_name(x) for x in elements).values(), default=1)


def _merge_elements(
    base: list[_Element], ours: list[_Element], theirs: list[_Element], display: bool
) -> list[_Element]:
    """Merge elements that both sides changed, or put new ones in one place. Raises Unclear."""
    if len(base) == len(ours) == len(theirs):
        triples = zip(base, ours, theirs, strict=True)
        return [_Element(tuple(_merge_parts(b.parts, o.parts, t.parts))) for b, o, t in triples]
    old = {x.key for x in base}
    mine, others = ([x for x in side if x.key not in old] for side in (ours, theirs))
    same = {x.key for x in mine} & {x.key for x in others}
    if not display and not all(_is_named(x) for x in (*mine, *others)):
        raise Unclear  # the place of an argument says what it is
    if {_name(x) for x in mine if x.key not in same} & {
        _name(x) for x in others if x.key not in same
    }:
        raise Unclear
    left = [{x.key for x in side} for side in (ours, theirs)]
    gone = [{_name(x) for x in base if x.key not in keys} for keys in left]
    if gone[0] & {_name(x) for x in others} or gone[1] & {_name(x) for x in mine}:
        raise Unclear  # one side drops the entry that the other changes
    return _united(base, ours, theirs)


def _united(base: list[_Element], ours: list[_Element], theirs: list[_Element]) -> list[_Element]:
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
    merged: list[_Element] = []
    for x in filter(None, latest):
        merged += [*reversed(above.pop(x.key, [])), x]
    merged += reversed(above[None])
    in_order = all(_rises([_sort_key(x) for x in side]) for side in (ours, theirs))
    return sorted(merged, key=_sort_key) if in_order else merged


def _sort_key(element: _Element) -> tuple[str, ...]:
    return tuple(text.casefold() for text in element.key)


def _rises(values: list[tuple[str, ...]]) -> bool:
    return len(values) > 1 and values == sorted(values)


def _name(element: _Element) -> tuple[str, ...]:
    """Return what may be in a bracket only once: a keyword, a key of a dict, a whole entry."""
    key = element.key
    if len(key) > 1 and key[1] in ("=", ":"):
        return key[:1]
    return key


def _is_named(element: _Element) -> bool:
    key = element.key
    return len(key) > 2 and key[1] == "=" and key[2] != "="


def _spaces(group: _Group) -> list[str]:
    return [word.space for word in _flat([group])[1:]]


def _spaced(element: _Element, index: int, spaces: list[str]) -> _Element:
    """Return an element with the space before it that the elements of another bracket have."""
    if not spaces:
        return element
    first, *rest = element.parts
    words = _flat([first])
    if "#" in words[0].space:
        return element
    space = spaces[0] if index == 0 else (spaces[1] if len(spaces) > 1 else spaces[0] or " ")
    if isinstance(first, Word):
        return _Element((first._replace(space=space), *rest))
    return _Element((_with_space(first, space), *rest))


def _with_space(group: _Group, space: str) -> _Group:
    opens = group.opens._replace(space=space)
    return _Group(opens, group.closes, group.elements, group.comma, group.display)
