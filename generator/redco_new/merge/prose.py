"""Three-way merge of a docstring, word by word; a diagram or a table in it is merged as it stands."""

import re
from collections import Counter

from redco_new.merge.line_merge import Overlap, merge_like_git
from redco_new.merge.statements import Word

_TOKEN = re.compile(r"\s*(?:\w+|[^\w\s])")
_COLUMNS = re.compile(r"\S {3,}\S")


class Unclear(Exception):
    """Both sides changed the same place."""


def merge_prose(base: Word, ours: Word, theirs: Word) -> Word:
    """Return a text with the changes of both sides; laid out as theirs where that says all of it. Raises Unclear."""
    sides = [_TOKEN.findall(word.text) for word in (base, ours, theirs)]
    laid_out = any(_COLUMNS.search(word.text) for word in (base, ours, theirs))

    def resolve(overlap: Overlap) -> list[str] | None:
        b, o, t = (side[slice(*at)] for side, at in zip(sides, overlap, strict=True))
        if _holds(b, o, t):
            return o
        return t if _holds(b, t, o) else None

    merged = merge_like_git(sides[0], sides[1], sides[2], str if laid_out else _says, resolve)
    if merged is None:
        raise Unclear
    says, b, o, t = ([_says(x) for x in side] for side in (merged, *sides))
    if says == t and o != b:
        return theirs._replace(space=ours.space)
    return Word(ours.space, "".join(merged))


def _holds(base: list[str], more: list[str], less: list[str]) -> bool:
    """Return whether one side wrote all that the other did, and has nothing that the other deleted."""
    b, m, x = ([token.strip() for token in side] for side in (base, more, less))
    return f" {' '.join(x)} " in f" {' '.join(m)} " and not (Counter(m) - Counter(x)) & Counter(b)


def _says(token: str) -> str:
    """Return a token with one blank for those before it."""
    return " " * token[0].isspace() + token.strip()
