"""The user's terms, given to the template's text: indent, line ending, names of definitions."""

import ast
from collections import Counter
from typing import Any

from redco_merge.limit import remember
from redco_merge.renames import find_renames, with_new_names
from redco_merge.source import (
    DOCUMENTED,
    Source,
    docstring_of,
    indent_of_line,
    last_line,
    plain_text,
)
from redco_merge.symbols import first_row, is_definition, symbols_of
from redco_merge.trees import chunks_of, tree_of

_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


def in_users_terms(
    base: Source, ours: Source, theirs: Source
) -> tuple[list[str], list[str], dict[str, str]]:
    """Return the lines of the template's two files, with the user's line ending, indent and names; and these names.

    The names: old -> new, of what the user renamed. Raises SyntaxError.
    """
    before, after = (_in_layout(side, ours) for side in (base, theirs))
    renames = find_renames(before, ours.lines, after)
    return with_new_names(before, renames), with_new_names(after, renames), renames


def in_order_of(
    ours: list[str], base: list[str], theirs: list[str]
) -> tuple[list[str], list[str]] | None:
    """Return base and theirs with their definitions in the order of ours; None where that moved none, or theirs did too."""
    orders = [
        [x.key for x in symbols_of(side) if is_definition(x)] for side in (ours, base, theirs)
    ]
    once = set.intersection(*({x for x in side if side.count(x) == 1} for side in orders))
    mine, old, new = ([x for x in side if x in once] for side in orders)
    if mine == old or old != new:
        return None
    return _reordered(base, mine), _reordered(theirs, mine)


def _reordered(lines: list[str], order: list[str]) -> list[str]:
    """Return the lines of a file whose definitions of these names are in this order, in the places that they have."""
    symbols = symbols_of(lines)
    by_key = {x.key: x for x in symbols if x.key in order and is_definition(x)}
    next_one = iter(order)
    new = [by_key[next(next_one)] if x in by_key.values() else x for x in symbols]
    return [line for x in new for line in x.lines]


def without_gap(lines: list[str], ours: list[str]) -> list[str]:
    """Return the lines of a file without blank ones at its top, where ours has none there."""
    if ours and not ours[0].strip():
        return lines
    return lines[next((i for i, line in enumerate(lines) if line.strip()), len(lines)) :]


def _in_layout(source: Source, ours: Source) -> list[str]:
    """Return the lines of `source` with the indent and the line ending of ours."""
    text = plain_text(source.lines)
    indent = _indent_of(plain_text(ours.lines))
    lines = _reindent(text, indent) if indent else text.split("\n")[:-1]
    newline = ours.newline
    return [line + newline for line in lines]


def _indent_of(text: str) -> str:
    """Return what most blocks add to the indent of the line above; "" if none is indented."""
    steps = Counter(step for chunk in chunks_of(text) for step in _steps_of_indent(chunk))
    return max(steps, key=steps.__getitem__, default="")


@remember
def _steps_of_indent(chunk: str) -> list[str]:
    """Return what each block of a chunk adds to the indent of its header, in their order."""
    lines = chunk.split("\n")
    steps: dict[int, str] = {}
    nodes: list[Any] = list(tree_of(chunk).body)
    for node in nodes:  # which grows
        header = node.pattern if isinstance(node, ast.match_case) else node
        for block in filter(None, (getattr(node, name, None) for name in _BLOCKS)):
            nodes += block
            if isinstance(block[0], ast.ExceptHandler):
                continue
            first = block[0].pattern if isinstance(block[0], ast.match_case) else block[0]
            row = first_row(first)
            outer, inner = (indent_of_line(lines[x]) for x in (header.lineno - 1, row))
            steps[row] = inner.removeprefix(outer)
    return [steps[row] for row in sorted(steps) if steps[row]]


def _reindent(text: str, indent: str) -> list[str]:
    """Return the lines of `text`, each level indented by `indent`; the inside of strings stays."""
    old, lines = _indent_of(text), text.split("\n")[:-1]
    if old in ("", indent):
        return lines
    fixed = _rows_in_strings(text)
    return [line if i in fixed else _with_indent(line, old, indent) for i, line in enumerate(lines)]


def _with_indent(line: str, old: str, new: str) -> str:
    levels = 0
    while line.startswith(old):
        line, levels = line[len(old) :], levels + 1
    return new * levels + line if line else ""


def _rows_in_strings(text: str) -> set[int]:
    """Return the lines that begin inside a string, other than a docstring."""
    rows: set[int] = set()
    nodes = list(ast.walk(ast.parse(text)))
    for node in nodes:
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            rows |= set(range(node.lineno, last_line(node)))
    for node in nodes:
        if isinstance(node, DOCUMENTED) and docstring_of(node.body[:1]):
            rows -= set(range(node.body[0].lineno, last_line(node.body[0])))
    return rows
