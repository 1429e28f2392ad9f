"""The merge of a place that both sides changed, statement by statement: what cannot matter in which order.

Each side keeps, replaces or drops each statement of base, and puts new ones between. Both may have done the same, or
added other names: definitions, imports, variables. Anything else is in order, and a conflict.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, takewhile

from redco_merge.elements import merge_statement_words
from redco_merge.import_block import bindings_of, is_import, merge_import_block
from redco_merge.matching import changes, partners
from redco_merge.statements import CLOSE, OPEN, Statement, collide, remarks_of

Lines = list[str]
Merged = list[Statement | Lines]
Place = list[Statement]
_DEFINES = ("def", "class", "async", "@")
_BRANCHES = ("try", "if", "elif", "else", "except", "finally")


@dataclass
class _Hunk:
    """base[start:stop] becomes `new`."""

    start: int
    stop: int
    new: Merged

    @property
    def says(self) -> tuple[object, ...]:
        return self.start, self.stop, [x.key for x in self.new if isinstance(x, Statement)]


class Clash(Exception):
    """Changes of which it matters which comes first: statements of base, and of theirs."""

    def __init__(self, base: Place, theirs: Place):
        self.base, self.theirs = base, theirs


def merge_place(base: Place, ours: Place, theirs: Place) -> Merged:
    """Return a place with the changes of both sides. Raises Clash."""
    if (merged := _merge_alike(base, ours, theirs)) is not None:
        return merged
    if collide(*([text for x in side for text in x.says] for side in (base, ours, theirs))):
        raise Clash(base, theirs)
    mine, others = _hunks(base, ours), _hunks(base, theirs)
    same = [h for h in mine for k in others if h.says == k.says]
    others = [k for k in others if k.says not in [h.says for h in same]]
    for h in [h for h in mine if h not in same]:
        for k in [k for k in others if k.start <= h.stop and h.start <= k.stop]:
            new = [x for x in k.new if isinstance(x, Statement)]
            if not _settle(base, h, k):
                raise Clash(base[min(h.start, k.start) : max(h.stop, k.stop)], new)
    hunks = sorted([*mine, *others], key=lambda h: (h.start, h.stop > h.start))
    dropped = {i for h in hunks for i in range(h.start, h.stop)}
    merged = []
    for i in range(len(base) + 1):
        merged += [x for h in hunks if h.start == i for x in h.new]
        merged += [x for x in base[i : i + 1] if i not in dropped]
    return merged


def _merge_alike(base: Place, ours: Place, theirs: Place) -> Merged | None:
    """Return imports as sets, or the side that did all that the other did, and wrote more above, below or in comments."""
    for less, more in ((theirs, ours), (ours, theirs)):
        some, every = ([x.key for x in side] for side in (less, more))
        ends = every[: len(some)], every[len(every) - len(some) :]
        if some and len(base) <= len(less) < len(more) and some in ends:
            return list(more)
        said = [[(x.indent, x.says) for x in side] for side in (less, more)]
        if not base and said[0] == said[1] and not any(x.remarks for x in less):
            return list(more)
    return merge_import_block(base, ours, theirs)


def _hunks(base: Place, side: Place) -> list[_Hunk]:
    """Return what a side has for what of base: statement for statement where these are as many."""
    hunks: list[_Hunk] = []
    for change in changes([x.key for x in base], [x.key for x in side]):
        hunks += _split(base, side, *change)
    return hunks


def _split(base: Place, side: Place, start: int, stop: int, new: int, end: int) -> Iterator[_Hunk]:
    """Yield a change, a statement that begins as another apart from the rest: it is that one, edited."""
    if stop - start == end - new:
        pairs = {i: i for i in range(stop - start)}
    else:
        pairs = partners([x.head for x in base[start:stop]], [x.head for x in side[new:end]])
    at, there = start, new
    for i, j in [*((start + i, new + j) for i, j in pairs.items()), (stop, end)]:
        if (at, there) != (i, j):
            yield _Hunk(at, i, list(side[there:j]))
        if i < stop and base[i].key != side[j].key:
            yield _Hunk(i, i + 1, [side[j]])
        at, there = i + 1, j + 1


def _settle(base: Place, mine: _Hunk, other: _Hunk) -> bool:
    """Return whether two changes that touch can both be made. Where these are of one place, `mine` gets both."""
    ours = [x for x in mine.new if isinstance(x, Statement)]
    theirs = [x for x in other.new if isinstance(x, Statement)]
    if (mine.start, mine.stop) == (other.start, other.stop):
        both = _both(base[mine.start : mine.stop], ours, theirs)
        mine.new, other.new = both or [], []
        return both is not None
    if not ours and not theirs:
        return True  # both drop, one of them more
    if mine.stop == other.start:
        return _independent(base, (mine, ours), (other, theirs))
    return other.stop == mine.start and _independent(base, (other, theirs), (mine, ours))


def _independent(base: Place, above: tuple[_Hunk, Place], below: tuple[_Hunk, Place]) -> bool:
    """Return whether two changes side by side are of other names, in other blocks, of imports, or of comments alone."""
    sides = [(base[hunk.start : hunk.stop], new) for hunk, new in (above, below)]
    if any(old and [x.says for x in old] == [x.says for x in new] for old, new in sides):
        return True
    first, second = ([x for x in (*old, *new) if x.words] for old, new in sides)
    if not first or not second or _outer(first) > _outer(second):
        return True
    if any(new and new[-1].says[:1] == ("@",) for _, new in sides):
        return False  # a decorator of what is below
    if any(not old and max(map(_rank, _executed(new)), default=2) > 1 for old, new in sides):
        return False  # what is new has an order, but for names
    imports = [all(map(is_import, x)) for x in (first, second)]
    if imports[0] != imports[1]:
        return True
    if _outer(first) < _outer(second) and first[-1].says[:1] != ("class",):
        return False  # a header, and the body below it
    names = [_bound([x for x in side if _binds(x)]) for side in (first, second)]
    return any(names) and not (names[0] & _words(second) or names[1] & _words(first))


def _outer(statements: Place) -> int:
    return min(len(x.indent) for x in statements)


def _both(base: Place, ours: Place, theirs: Place) -> Merged | None:
    """Return what both sides made of one place of base."""
    if (merged := _merge_alike(base, ours, theirs)) is not None:
        return merged
    if len(base) == len(ours) == len(theirs) == 1:
        one = _merge_one(base[0], ours[0], theirs[0])
        return None if one is None else [one]
    return None if base else _both_new(ours, theirs)


def _merge_one(base: Statement, ours: Statement, theirs: Statement) -> Statement | Lines | None:
    """Merge a statement of which one side changed the comments alone, or to which both added names."""
    if not base.words or not ours.words or not theirs.words or is_import(base):
        return None
    o, t = ours.says == base.says, theirs.says == base.says
    if not o and not t:
        words = merge_statement_words(base.words, ours.words, theirs.words)
    else:
        words = list(theirs.words if o else ours.words)
    above = _changed(*(x.words[0].space for x in (base, ours, theirs)))
    tail = _changed(base.tail, ours.tail, theirs.tail)
    inside = [
        [y for x in side.words[1:] for y in remarks_of(x.space)] for side in (base, ours, theirs)
    ]
    if words is None or above is None or tail is None or not inside[0] == inside[1] == inside[2]:
        return None
    text = above + words[0].text + "".join(word.space + word.text for word in words[1:]) + tail
    return text.splitlines(keepends=True)


def _changed(base: str, ours: str, theirs: str) -> str | None:
    """Return the blanks and comments that one side has changed, blanks aside; None where both have."""
    b, o, t = (remarks_of(x) for x in (base, ours, theirs))
    if t in (b, o):
        return ours
    return theirs if o == b else None


def _both_new(ours: Place, theirs: Place) -> Merged | None:
    """Return what both put in one place, the user's first; None where it may matter which comes first.

    It does not between definitions of different names. Nor where the names that one binds are not in the other, and both
    bind names to what nothing is called for, or one has imports and definitions only.
    """
    if not ours or not theirs or not _is_level(ours) or not _is_level(theirs):
        return None
    if any(side[-1].says[:1] == ("@",) for side in (ours, theirs)):
        return None  # decorators of what is below
    names = defined_names(ours), defined_names(theirs)
    if ours[0].indent != theirs[0].indent:  # what is deeper ends a block that is above
        deeper, other = sorted((ours, theirs), key=lambda x: -len(x[0].indent))
        return [*deeper, *other]
    if all(names):
        return None if names[0] & names[1] else [*ours, *theirs]
    if _bound(ours) & _words(theirs) or _bound(theirs) & _words(ours):
        return None
    ranks = sorted(max((_rank(x) for x in _executed(side)), default=0) for side in (ours, theirs))
    if ranks[0] and ranks[1] > 1:
        return None
    heads = [list(takewhile(is_import, side)) for side in (ours, theirs)]
    imports = merge_import_block([], *heads) if all(heads) else None
    if imports is None:
        return [*theirs, *ours] if names[0] else [*ours, *theirs]  # definitions are below
    return [*imports, *ours[len(heads[0]) :], *theirs[len(heads[1]) :]]


def defined_names(statements: Place) -> set[str]:
    """Return the names of statements that are whole definitions of one depth; else nothing."""
    if not statements or not _is_level(statements) or not statements[-1].words:
        return set()
    outside = list(_executed(statements))
    whole = outside and outside[-1].says[:1] != ("@",)
    return _bound(outside) if whole and all(x.says[0] in _DEFINES for x in outside) else set()


def _is_level(statements: Place) -> bool:
    """Return whether no statement is outside of the block that the first is in."""
    return all(x.indent.startswith(statements[0].indent) for x in statements if x.words)


def _executed(statements: Place) -> Iterator[Statement]:
    """Yield the statements that are in no function or class among them."""
    inside: str | None = None
    for x in statements:
        if inside is None or not x.indent.startswith(inside) or x.indent == inside:
            defines = x.says[:1] and x.says[0] in _DEFINES[:3]
            inside = x.indent if defines else None
            if x.words:
                yield x


def _bound(statements: Place) -> set[str]:
    """Return the names that statements bind outside of functions, as far as their words tell."""
    names: set[str] = set()
    for x in _executed(statements):
        says = x.says
        if is_import(x):
            names |= {name for _, name in bindings_of(x)}
        elif says[0] in _DEFINES[:3]:
            names.add(next(text for text in says if text not in _DEFINES))
        elif says[0] not in (*_DEFINES, *_BRANCHES):
            end = min(says.index(x) for x in ("=", ":", *says[-1:]) if x in says)
            names |= {text for text in (says[:end] or says) if text.isidentifier()}
    return names - {"self", "cls"}


def _words(statements: Place) -> set[str]:
    """Return the words of statements, those in texts too: some are names in braces."""
    return {word for x in statements for text in x.says for word in re.findall(r"\w+", text)}


def _binds(statement: Statement) -> bool:
    """Return whether a statement is there for the names that it binds."""
    depth = 0
    for text in statement.says:
        depth += (text in OPEN) - (text in CLOSE)
        if text == "=" and not depth:
            return True
    return is_import(statement) or statement.says[:1] in (("def",), ("class",), ("async",))


def _rank(statement: Statement) -> int:
    """Return 0 of an import, a definition or a branch, 1 of a name that is bound without a call, else 2."""
    says = statement.says
    if is_import(statement) or says[0] in (*_DEFINES, *_BRANCHES):
        return 0
    calls = any(b in OPEN and a.isidentifier() for a, b in pairwise(says))
    return 1 if _binds(statement) and not calls else 2
