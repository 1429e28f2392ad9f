"""The layout of the user's file, given to the template's text: indent, line ending, line length."""

import ast
import tokenize
from collections import Counter
from dataclasses import dataclass

from redco_new.merge.fingerprint import DOCUMENTED, is_docstring, tokens_of
from redco_new.merge.source import Source, bare, plain
from redco_new.merge.symbols import symbols_of

WIDTH = 100  # characters of a line in the template's files
WIDTHS = (60, 72, 79, 80, 88, 100, 120)  # those in use


@dataclass(frozen=True)
class Style:
    indent: str  # of one level; "" where the file has none
    newline: str
    width: int

    def apply(self, source: Source) -> list[str]:
        """The lines of `source` in this style. Raises SyntaxError."""
        text = plain(source.lines)
        if self.width != WIDTH:
            text = formatted(text, self.width)
        lines = reindented(text, self.indent) if self.indent else text.split("\n")[:-1]
        return [line + self.newline for line in lines]


def style_of(ours: Source, base: Source) -> Style:
    """The style of the user's file."""
    width = width_of(plain(ours.lines)) if other_width(ours, base) else WIDTH
    return Style(indent_of(plain(ours.lines)), ours.newline, width)


def other_width(ours: Source, base: Source) -> bool:
    """Whether a symbol says what it said, in shorter lines, or in lines longer than the template's."""
    longest = {s.print: max(map(len, bare(s.body))) for s in symbols_of(base.lines) if s.nodes}
    for symbol in symbols_of(ours.lines):
        before = longest.get(symbol.print, 0)
        now = max(map(len, bare(symbol.body)), default=0)
        if now < before or WIDTH < now != before > 0:
            return True
    return False


def width_of(text: str) -> int:
    """The least of the line lengths in use at which black leaves `text` as it is; else WIDTH."""
    return next((width for width in WIDTHS if formatted(text, width) == text), WIDTH)


def formatted(text: str, width: int) -> str:
    """`text` as black lays it out; as it is where black fails."""
    import black  # slow to import, and few files need it

    try:
        return black.format_str(text, mode=black.Mode(line_length=width))
    except Exception:  # black raises its own kinds and lib2to3's; layout is never worth a failure
        return text


def indent_of(text: str) -> str:
    """What most indented blocks add to the indent of the line above; "" if none is indented."""
    steps, stack = Counter(), [""]
    for token in tokens_of(text):
        if token.type == tokenize.INDENT:
            steps[token.string.removeprefix(stack[-1])] += 1
            stack.append(token.string)
        elif token.type == tokenize.DEDENT:
            stack.pop()
    return max(steps, key=steps.__getitem__, default="")


def reindented(text: str, indent: str) -> list[str]:
    """The lines of `text` with each level indented by `indent`; the inside of strings stays."""
    old, lines = indent_of(text), text.split("\n")[:-1]
    if old in ("", indent):
        return lines
    fixed = in_strings(text)
    return [line if i in fixed else with_indent(line, old, indent) for i, line in enumerate(lines)]


def with_indent(line: str, old: str, new: str) -> str:
    levels = 0
    while line.startswith(old):
        line, levels = line[len(old) :], levels + 1
    return new * levels + line if line else ""


def in_strings(text: str) -> set[int]:
    """The lines that begin inside a string, other than a docstring."""
    rows: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and node.lineno < node.end_lineno:
            rows |= set(range(node.lineno, node.end_lineno))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and is_docstring(node.body[:1]):
            rows -= set(range(node.body[0].lineno, node.body[0].end_lineno))
    return rows
