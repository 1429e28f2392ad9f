"""One statement to which both sides added elements that have names: keyword arguments, entries, members of `__all__`.

What is in order is never woven: arguments, parameters, tuples and lists that both sides changed are a conflict.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from redco_merge.matching import Overlap, merge_like_git
from redco_merge.statements import CLOSE, OPEN, Word, remarks_of

Words = Sequence[Word]


class Unclear(Exception):
    """Both sides changed the same place."""


@dataclass(frozen=True)
class Group:
    """A bracket with its elements.

    opens: the bracket.
    closes: the other one.
    elements: the words of each; a group is one of them.
    comma: whether one is behind the last.
    named: whether its elements have no place but a name: those of a set, a dict or an import.
    """

    opens: Word
    closes: Word
    elements: tuple["Element", ...]
    comma: bool
    named: bool


@dataclass(frozen=True, eq=False)
class Element:
    """What is between two commas of a bracket."""

    parts: tuple["Word | Group", ...]

    @cached_property
    def key(self) -> tuple[str, ...]:
        return tuple(word.text for word in words_of(self.parts))


Part = Word | Group


def read_brackets(words: list[Word]) -> tuple[Part, ...]:
    """Return words with each bracket as one part. Raises Unclear where brackets do not match."""
    stack: list[list[Part]] = [[]]
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


def _bracket(opens: Word, closes: Word, inside: list[Part], before: list[Part]) -> Group:
    elements: list[list[Part]] = [[]]
    for part in inside:
        if isinstance(part, Word) and part.text == ",":
            elements.append([])
        else:
            elements[-1].append(part)
    comma = len(elements) > 1 and not elements[-1]
    imports = bool(before) and isinstance(before[-1], Word) and before[-1].text == "import"
    chosen = tuple(Element(tuple(x)) for x in elements if x)
    return Group(opens, closes, chosen, comma, opens.text == "{" or imports)


def words_of(parts: Sequence[Part]) -> list[Word]:
    words: list[Word] = []
    for part in parts:
        if isinstance(part, Word):
            words.append(part)
            continue
        words.append(part.opens)
        for i, element in enumerate(part.elements):
            words += words_of(element.parts)
            if i + 1 < len(part.elements) or part.comma:
                words.append(Word("", ","))
        words.append(part.closes)
    return words


def key_of(parts: Sequence[Part]) -> tuple[str, ...]:
    return tuple(word.text for word in words_of(parts))


def frame_of(parts: Sequence[Part]) -> list[tuple[str, ...]]:
    """Return what is outside of brackets, and where these are."""
    return [(x.text,) if isinstance(x, Word) else (x.opens.text, x.closes.text, "") for x in parts]


Name = tuple[str, ...]


def merge_statement_words(base: Words, ours: Words, theirs: Words) -> list[Word] | None:
    """Return the words of a statement with what both sides added; None where they did anything else."""
    sides = [list(side) for side in (base, ours, theirs)]
    if any(remarks_of(word.space) for side in sides for word in side[1:]):
        return None
    texts = [word.text for word in base]
    try:
        parts = [read_brackets(side) for side in sides]
        return words_of(
            _merge_parts(parts[0], parts[1], parts[2], texts[:1], texts[:1] == ["__all__"])
        )
    except Unclear:
        return None


def _merge_parts(
    base: Sequence[Part],
    ours: Sequence[Part],
    theirs: Sequence[Part],
    keyword: list[str],
    exports: bool = False,
) -> Sequence[Part]:
    """Merge parts that say the same outside of their brackets. Raises Unclear."""
    b, o, t = key_of(base), key_of(ours), key_of(theirs)
    if t in (b, o):
        return ours
    if o == b:
        return theirs
    if not frame_of(base) == frame_of(ours) == frame_of(theirs):
        raise Unclear
    merged: list[Part] = []
    for x, y, z in zip(base, ours, theirs, strict=True):
        if isinstance(x, Group) and isinstance(y, Group) and isinstance(z, Group):
            y = _merge_groups(x, y, z, keyword, exports)
        merged.append(y)
    return merged


def _merge_groups(
    base: Group, ours: Group, theirs: Group, keyword: list[str], exports: bool
) -> Group:
    """Merge brackets to which each side added other names, or of which each added to other elements."""
    sides = [list(group.elements) for group in (base, ours, theirs)]
    b, o, t = ([x.key for x in side] for side in sides)
    if len(b) == len(o) == len(t) and not base.named and _places_alike(*sides):
        triples = zip(*sides, strict=True)
        merged = [
            Element(tuple(_merge_parts(x.parts, y.parts, z.parts, []))) for x, y, z in triples
        ]
    else:
        parameters = keyword in (["def"], ["async"])
        mine, others = (_changes(base, side, parameters, exports) for side in (ours, theirs))
        if any(mine[name].key != others[name].key for name in mine.keys() & others.keys()):
            raise Unclear

        def resolve(overlap: Overlap) -> list[Element]:
            old = [_name(x, base, exports) for x in sides[0][slice(*overlap.base)]]
            edited: dict[Name | None, Element] = {**others}  # type: ignore[dict-item]
            edited |= mine  # type: ignore[arg-type]
            new = sides[1][slice(*overlap.ours)] + sides[2][slice(*overlap.theirs)]
            added = {_name(x, base, exports): x for x in new}
            return [edited.get(x, added[x]) for x in [*old, *(x for x in added if x not in old)]]

        merged = merge_like_git(sides[0], sides[1], sides[2], lambda x: x.key, resolve) or []
        if exports and all(len(x) > 1 and x == sorted(x) for x in (o, t)):
            merged.sort(key=lambda x: x.key)
    like = theirs if _spaces(ours) == _spaces(base) else ours
    spaces = [words_of(x.parts)[0].space for x in like.elements]
    spaced = [_spaced(x, i, spaces) for i, x in enumerate(merged)]
    comma = like.comma or (base.comma and len(spaced) == 1)
    return Group(like.opens, like.closes, tuple(spaced), comma, base.named)


def _places_alike(base: list[Element], ours: list[Element], theirs: list[Element]) -> bool:
    """Return whether what each place says is the same, but for the inside of its brackets."""
    triples = zip(base, ours, theirs, strict=True)
    return all(frame_of(x.parts) == frame_of(y.parts) == frame_of(z.parts) for x, y, z in triples)


def _changes(base: Group, side: Group, parameters: bool, exports: bool) -> dict[Name, Element]:
    """Return what a side added or changed in a bracket, by name.

    Raises Unclear where it dropped or moved one, or changed what has none.
    """
    old = [_name(x, base, exports) or x.key for x in base.elements]
    new = [_name(x, base, exports) or x.key for x in side.elements]
    if [x for x in new if x in old] != old or len({*new}) < len(new):
        raise Unclear
    before = {x.key for x in base.elements}
    free = not parameters  # behind a star, parameters have no place
    changed: dict[Name, Element] = {}
    for element in side.elements:
        if element.key not in before:
            name = _name(element, base, exports)
            if name is None or not (free or name in old):
                raise Unclear
            changed[name] = element
        free = free or element.key[:1] == ("*",)
    return changed


def _name(element: Element, group: Group, exports: bool = False) -> Name | None:
    """Return what may be in a bracket only once: a keyword, a key of a dict, a member of a set; None for what has a place."""
    key = element.key
    if exports or (group.named and group.opens.text != "{"):
        return key
    if group.opens.text == "{":
        return None if key[:1] == ("*",) else key[: key.index(":")] if ":" in key else key
    return key[:1] if key[1:2] in (("=",), (":",)) and key[2:3] != ("=",) else None


def _spaces(group: Group) -> list[str]:
    return [word.space for word in words_of([group])[1:]]


def _spaced(element: Element, index: int, spaces: list[str]) -> Element:
    """Return an element with the space before it that the elements of another bracket have."""
    if not spaces:
        return element
    first, *rest = element.parts
    space = spaces[0] if index == 0 else (spaces[1] if len(spaces) > 1 else spaces[0] or " ")
    if isinstance(first, Word):
        return Element((first._replace(space=space), *rest))
    opens = first.opens._replace(space=space)
    return Element((Group(opens, first.closes, first.elements, first.comma, first.named), *rest))
