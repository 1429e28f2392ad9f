"""The user's style, given to the template's text: indent, line ending, line length, renames."""

import ast
from collections import Counter
from dataclasses import dataclass
from typing import Any

from redco_merge.memory import remember
from redco_merge.source import (
    DOCUMENTED,
    Source,
    docstring_of,
    indent_of_line,
    last_line,
    plain_text,
    without_endings,
)
from redco_merge.symbols import Symbol, first_row, symbols_of
from redco_merge.trees import chunks_of, tree_of

_WIDTH = 100  # characters of a line in the template's files
# The line lengths tried for a file that is laid out anew: narrow listings (60), the docstrings and
# the code of PEP 8 (72, 79), a terminal (80), black (88), and what teams agree on (100, 120).
_WIDTHS = (60, 72, 79, 80, 88, 100, 120)
# Of files that are laid out anew: black takes a second for a thousand lines.
_MOST_LINES = 400
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


@dataclass(frozen=True)
class Style:
    """The layout of a file.

    indent: of one level; "" where the file has none.
    newline: the line ending.
    width: characters of a line.
    """

    indent: str
    newline: str
    width: int

    def apply(self, source: Source) -> list[str]:
        """Return the lines of `source` in this style. Raises SyntaxError."""
        text = plain_text(source.lines)
        if self.width != _WIDTH:
            text = _format(text, self.width)
        lines = _reindent(text, self.indent) if self.indent else text.split("\n")[:-1]
        return [line + self.newline for line in lines]


def style_of(ours: Source, base: Source) -> Style:
    """Return the style of the user's file. Raises SyntaxError."""
    return Style(_indent_of(plain_text(ours.lines)), ours.newline, _width_of(ours, base))


def has_own_width(ours: Source, base: Source) -> bool:
    """Return whether the user's file is laid out in lines of another length. Raises SyntaxError."""
    return _width_of(ours, base) != _WIDTH


def _has_other_width(ours: Source, base: Source) -> bool:
    """Return whether a symbol says what it did in shorter lines, or in lines above _WIDTH."""
    before, now = (
        {"".join(without_endings(s.body)): s for s in symbols_of(side.lines) if s.nodes}
        for side in (base, ours)
    )
    gone, new = ([a[x] for x in a.keys() - b.keys()] for a, b in ((before, now), (now, before)))
    longest = {s.fingerprint: _longest(s) for s in gone}
    for symbol in new:
        old, length = longest.get(symbol.fingerprint, 0), _longest(symbol)
        if length < old or _WIDTH < length != old > 0:
            return True
    return False


def _longest(symbol: Symbol) -> int:
    """Return the length of a symbol's longest line."""
    return max(map(len, without_endings(symbol.body)), default=0)


def _width_of(ours: Source, base: Source) -> int:
    """Return the one of _WIDTHS that has room for the user's lines, if black leaves them so."""
    if len(ours.lines) > _MOST_LINES or not _has_other_width(ours, base):
        return _WIDTH
    text = plain_text(ours.lines)
    longest = max(map(len, text.splitlines()), default=0)
    width = next((width for width in _WIDTHS if width >= longest), _WIDTH)
    return width if _format(text, width) == text else _WIDTH


def _format(text: str, width: int) -> str:
    """Return `text` as black lays it out; as it is where black fails."""
    import black  # slow to import, and few files need it

    try:
        return black.format_str(text, mode=black.Mode(line_length=width))
    except Exception:  # black raises its own kinds and lib2to3's; layout is never worth a failure
        return text


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
