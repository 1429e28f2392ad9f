"""What both sides put in one place: both are kept where it cannot matter which comes first, the user's first."""

from collections.abc import Iterator
from itertools import pairwise, takewhile

from redco_merge.import_block import bindings_of, is_import, merge_import_block
from redco_merge.statements import OPEN, Statement

Lines = list[str]
Place = list[Statement]
_DEFINES = ("def", "class", "async", "@")
_BRANCHES = ("try", "if", "elif", "else", "except", "finally")


def both_new(ours: Place, theirs: Place) -> list[Statement | Lines] | None:
    """Return what both put in one place; None where it may matter which comes first.

    It does not between definitions of different names. Nor where the names that one binds are not in the other, and both bind names to what nothing is
    called for, or one has imports and definitions only.
    """
    if not ours or not theirs or ours[0].indent != theirs[0].indent:
        return None
    if any(side[-1].says[:1] == ("@",) for side in (ours, theirs)):
        return None  # decorators of what is below
    if not _is_level(ours) or not _is_level(theirs):
        return None
    names = defined_names(ours), defined_names(theirs)
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
        return [*ours, *theirs]
    return [*imports, *ours[len(heads[0]) :], *theirs[len(heads[1]) :]]


def defined_names(statements: Place) -> set[str]:
    """Return the names of statements that are whole definitions of one depth; else nothing."""
    if not statements or not _is_level(statements):
        return set()
    outside = list(_executed(statements))
    return _bound(outside) if all(x.says[0] in _DEFINES for x in outside) else set()


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
            end = says.index("=") if "=" in says else len(says)
            names |= {text for text in says[:end] if text.isidentifier()}
    return names - {"self", "cls"}


def _words(statements: Place) -> set[str]:
    return {text.strip("'\"") for x in statements for text in x.says}


def _rank(statement: Statement) -> int:
    """Return 0 of an import, a definition or a branch, 1 of a name that is bound without a call, else 2."""
    says = statement.says
    if is_import(statement) or says[0] in (*_DEFINES, *_BRANCHES):
        return 0
    calls = any(b in OPEN and a.isidentifier() for a, b in pairwise(says))
    return 1 if "=" in says and not calls else 2
