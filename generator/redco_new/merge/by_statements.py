"""The merge of a Python file statement by statement: layout is no change, else as git merges lines.

Where both sides changed one place, a statement that begins as another is that one, edited; these are
merged by the elements of their brackets, and definitions that both put in one place are both kept.
"""

from collections.abc import Hashable, Sequence

from redco_new.merge.elements import merge_statement_words
from redco_new.merge.import_block import merge_import_block
from redco_new.merge.line_merge import Overlap, merge_like_git
from redco_new.merge.matching import shared_stretches
from redco_new.merge.memory import remember
from redco_new.merge.statements import Statement, collide, cut_statements

Lines = list[str]
Merged = list[Statement | Lines]
_DEFINES = ("def", "class", "async")


def merge_statements(base: Lines, ours: Lines, theirs: Lines) -> Lines | None:
    """Return the lines of a file with the changes of both sides, or None where these overlap.

    All lines have one ending.
    """
    sides = base, ours, theirs
    cut = [_cut(tuple(side), i) for i, side in enumerate(sides)]
    text = {
        id(x): side[x.start : x.stop] for side, own in zip(sides, cut, strict=True) for x in own
    }

    def resolve(overlap: Overlap) -> Merged | None:
        b, o, t = (side[slice(*at)] for side, at in zip(cut, overlap, strict=True))
        if (imports := merge_import_block(b, o, t)) is not None:
            return imports
        words = ([text for x in side for text in x.says] for side in (b, o, t))
        return None if collide(*words) else _merge_by_heads(b, o, t)

    merged = merge_like_git(cut[0], cut[1], cut[2], _key_of, resolve)
    if merged is None:
        return None
    return [line for x in merged for line in (text[id(x)] if isinstance(x, Statement) else x)]


# A side is cut for each way to merge it. Two sides that are equal share no statement, for a merge
# knows its statements by their identity.
@remember
def _cut(lines: tuple[str, ...], side: int) -> list[Statement]:
    return cut_statements(list(lines))


def _key_of(statement: Statement) -> Hashable:
    return statement.key


def _merge_by_heads(
    base: list[Statement], ours: list[Statement], theirs: list[Statement]
) -> Merged | None:
    """Merge a place, where statements that begin alike are one; None where it is unclear."""
    sides = base, ours, theirs
    keys = _keys_by_head(base, ours, theirs)
    places = [[keys[id(x)] for x in side] for side in sides]
    in_ours, in_theirs = _partners(places[0], places[1]), _partners(places[0], places[2])
    for b, old in enumerate(base):
        mine = ours[in_ours[b]] if b in in_ours else None
        other = theirs[in_theirs[b]] if b in in_theirs else None
        if (mine is None and other and other.key != old.key) or (
            other is None and mine and mine.key != old.key
        ):
            return None  # one side drops what the other edits
    of_ours = {id(ours[o]): (base[b], in_theirs.get(b)) for b, o in in_ours.items()}

    def resolve(overlap: Overlap) -> list[Statement] | None:
        o, t = (side[slice(*at)] for side, at in zip(sides[1:], overlap[1:], strict=True))
        return _both_new(o, t) if overlap.base[0] == overlap.base[1] else None

    merged = merge_like_git(base, ours, theirs, lambda x: keys[id(x)], resolve)
    result: Merged = []
    for x in merged or []:
        old, at = of_ours.get(id(x), (x, None))
        one = x if at is None else _merge_one(old, x, theirs[at])
        if one is None:
            return None
        result.append(one)
    return None if merged is None else result


def _keys_by_head(*sides: list[Statement]) -> dict[int, Hashable]:
    """Return what makes two statements one, by their identity.

    It is how they begin where base has one that begins so, else all that they say.
    """
    base = [_head(x) for x in sides[0]]
    keys: dict[int, Hashable] = {id(x): head for x, head in zip(sides[0], base, strict=True)}
    for side in sides[1:]:
        heads = [_head(x) for x in side]
        in_base = set(_partners(base, heads).values())
        keys |= {id(x): heads[i] if i in in_base else x.key for i, x in enumerate(side)}
    return keys


def _partners(a: Sequence[Hashable], b: Sequence[Hashable]) -> dict[int, int]:
    return {i + n: j + n for i, j, size in shared_stretches(a, b) for n in range(size)}


def _head(statement: Statement) -> tuple[str, ...]:
    """Return what a statement begins with, up to a bracket or a sign of assignment."""
    says = statement.says
    if says[:1] == ("@",):
        return (statement.indent, *says)
    end = next((i + 1 for i, text in enumerate(says) if text in "([{=:" and i), len(says))
    return (statement.indent, *says[:end])


def _merge_one(base: Statement, ours: Statement, theirs: Statement) -> Statement | Lines | None:
    """Merge one statement, or None."""
    if theirs.key in (base.key, ours.key):
        return ours
    if ours.key == base.key:
        return theirs
    if not base.remarks == ours.remarks == theirs.remarks:
        return None
    words = merge_statement_words(base.words, ours.words, theirs.words)
    if words is None:
        return None
    text = "".join(word.space + word.text for word in words) + ours.tail
    return text.splitlines(keepends=True)


def _both_new(ours: list[Statement], theirs: list[Statement]) -> list[Statement] | None:
    """Return definitions, or cases that exclude each other, that both put in one place, ours first; else None."""
    names = _defined(ours), _defined(theirs)
    cases = _case(ours), _case(theirs)
    if not all(names) and (cases[0][:1] == cases[1][:1] != ()):
        names = {cases[0][1]}, {cases[1][1]}
    if not all(names) or ours[0].indent != theirs[0].indent or names[0] & names[1]:
        return None
    return [*ours, *theirs]


def _case(statements: Sequence[Statement]) -> tuple[str, ...]:
    """Return the name and the literal of an `if name == literal:` whose block leaves; else nothing."""
    code = [x for x in statements if x.words]
    if len(code) < 2:
        return ()
    first, *block = code
    name, signs = first.says[1:-4], (*first.says[:1], *first.says[-4:-2], *first.says[-1:])
    if signs != ("if", "=", "=", ":") or not all(x.isidentifier() or x == "." for x in name):
        return ()
    depth = block[0].indent
    inside = all(x.indent.startswith(depth) and depth > first.indent for x in block)
    leaves = block[-1].indent == depth and block[-1].says[0] in ("return", "raise")
    literal = first.says[-2]
    return ("".join(name), literal) if inside and leaves and literal[0] in "'\"0123456789" else ()


def _defined(statements: Sequence[Statement]) -> set[str]:
    """Return the names of statements that are whole definitions of one depth; else nothing."""
    indent = statements[0].indent if statements else ""
    names: set[str] = set()
    for x in statements:
        if x.indent == indent and x.words:
            at = next((i for i, text in enumerate(x.says[:2]) if text in ("def", "class")), None)
            if at is not None:
                names.add(x.says[at + 1])
            elif x.says[0] != "@":
                return set()
        elif not x.indent.startswith(indent):
            return set()
    return names if statements and statements[-1].says[:1] != ("@",) else set()
