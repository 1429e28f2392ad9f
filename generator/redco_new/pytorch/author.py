"""The statements of the class's own source: the variables that its author assigns, and what it asserts."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from redco_new.pytorch.refusal import own_frames_of


@dataclass(frozen=True)
class Statement:
    """A statement of a source file.

    key: its file and first line; ("", 0) where it is not known
    names: the variables that it assigns, () for none
    """

    key: tuple[str, int] = ("", 0)
    names: tuple[str, ...] = ()


def statement_of(stack: str | None) -> Statement:
    """Return the statement of the innermost frame of a traceback that is of the part's own package."""
    frames = own_frames_of(stack)
    if not frames:
        return Statement()
    file, line = frames[-1]
    return _statements(file).get(int(line), Statement((file, int(line))))


def asserted(cls: type) -> list[str]:
    """Return the conditions that forward of a class asserts, as Python; [] where its source is not at hand."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls.forward)))  # type: ignore[attr-defined]
    except (OSError, TypeError, SyntaxError):
        return []
    return [ast.unparse(x.test) for x in ast.walk(tree) if isinstance(x, ast.Assert)]


@functools.cache
def _statements(file: str) -> dict[int, Statement]:
    """Return the statement of each line of a file that is within one."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return {}
    lines: dict[int, Statement] = {}
    for node in ast.walk(tree):  # from the outside in
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            statement = Statement((file, node.lineno), _names(node))
            lines |= dict.fromkeys(
                range(node.lineno, (node.end_lineno or node.lineno) + 1), statement
            )
    return lines


def _names(node: ast.stmt) -> tuple[str, ...]:
    """Return the variables that a statement assigns, in their order."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target: ast.expr = node.targets[0]
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        target = node.target
    else:
        return ()
    while isinstance(target, ast.Subscript):
        target = target.value
    if isinstance(target, ast.Name):
        return (target.id,)
    return tuple(_flat(target)) if isinstance(target, ast.Tuple) else ()


def _flat(target: ast.expr) -> Iterator[str]:
    """Yield the names of `out, (hidden, cell)`; none for what is no variable."""
    if isinstance(target, ast.Tuple):
        names = [[*_flat(x)] for x in target.elts]
        yield from (x for one in names for x in one) if all(names) else ()
    elif isinstance(target, ast.Name):
        yield target.id
