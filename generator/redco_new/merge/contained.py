"""A place where one side did all that the other did, and more: then the merge is that side's.

Both took over one change, for instance, and one went on. What is in both is the same statement of the
same block, so that nothing of two different blocks is put together.
"""

from collections import Counter

from redco_new.merge.brackets import holds_all
from redco_new.merge.matching import partners
from redco_new.merge.prose import Unclear
from redco_new.merge.statements import Statement

Merged = list[Statement | list[str]]
_MOST_PAIRS = 2000  # of statements that are compared: 20 ms
_CLAUSES = [("else",), ("elif",), ("except",), ("finally",)]


def fuller_side(
    base: list[Statement], ours: list[Statement], theirs: list[Statement]
) -> Merged | None:
    """Return the side that holds all that the other has; None where each has something of its own.

    Of base both leave the same, and what the other side drops is not in the fuller one as an edit.
    """
    b, o, t = ({x.key for x in side if x.words} for side in (base, ours, theirs))
    if not o or not t or b & o != b & t:
        return None
    side = _fuller(base, ours, theirs) or _fuller(base, theirs, ours)
    return None if side is None else list(side)


def _fuller(
    base: list[Statement], more: list[Statement], less: list[Statement]
) -> list[Statement] | None:
    partner = _partners(more, less)
    if partner is None:
        return None
    edited = {x.head for x in base}
    shared = set(partner.values())
    outer = blocks_of(more)
    new = [
        x
        for i, x in enumerate(more)
        if i not in shared and (outer[i] is None or outer[i] in shared)
    ]
    left = {x.head for x in less}
    dropped = [x for x in base if x.words and x.head not in left]
    if len(new) * len(dropped) > _MOST_PAIRS or any(_is_like(x, y) for x in new for y in dropped):
        return None
    for j, i in partner.items():
        x, y = more[i], less[j]
        if x.key != y.key and (x.head in edited or not _holds_words(x, y)):
            return None
    return more


def _is_like(statement: Statement, old: Statement) -> bool:
    """Return whether a statement may be another one, edited: it begins so, or has half of its words."""
    shared = Counter(statement.says) & Counter(old.says)
    defines = statement.says[:1] in (("def",), ("class",), ("async",), ("@",))
    return statement.head == old.head or (not defines and 2 * shared.total() >= len(old.says))


def _partners(more: list[Statement], less: list[Statement]) -> dict[int, int] | None:
    """Return where each statement of `less` is in `more`, in that order and in the same block; None where one is not."""
    equal = {x.key for x in more} & {x.key for x in less}
    keys = [[x.key if x.key in equal else x.head for x in side] for side in (more, less)]
    partner = {j: i for i, j in partners(keys[0], keys[1]).items()}
    if len(partner) < len(less):
        return None
    outer, inner = blocks_of(more), blocks_of(less)
    place: dict[int | None, int | None] = {None: None} | {j: i for j, i in partner.items()}
    return partner if all(outer[i] == place[inner[j]] for j, i in partner.items()) else None


def blocks_of(statements: list[Statement]) -> list[int | None]:
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


def _holds_words(more: Statement, less: Statement) -> bool:
    try:
        return more.remarks == less.remarks and holds_all(more.words, less.words)
    except Unclear:
        return False
