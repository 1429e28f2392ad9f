"""A Python file as a list of symbols that cover its every line."""

import ast
import copy
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from redco_new.merge.names import Binding, bound_names, import_bindings, statement_title
from redco_new.merge.source import (
    Fingerprint,
    comment_text,
    docstring_of,
    fingerprint_code,
    last_line,
    plain_text,
    tokens_of,
    without_endings,
)
from redco_new.merge.trees import tree_of

# The keys of what has no name: the comments at the top of a file, the header of a class,
# the comments at the end of a scope, a docstring.
HEAD, HEADER, END, DOC = "<head>", "<header>", "<end>", "__doc__"
TYPE_CHECKING = "if TYPE_CHECKING"
_LAYOUT = {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass(frozen=True, eq=False)
class Symbol:
    """Statements of one scope that are merged as one: lines of the file, and what they say.

    key: tells it from its siblings.
    lead: the blank lines and comments above it.
    body: its own lines.
    nodes: its statements.
    fingerprint: what `body` says.
    members: the symbols that `body` consists of, for a class and an `if TYPE_CHECKING`; or None.
    """

    key: str
    lead: list[str]
    body: list[str]
    nodes: list[ast.stmt]
    fingerprint: Fingerprint
    members: "list[Symbol] | None" = None

    @property
    def lines(self) -> list[str]:
        return self.lead + self.body

    @cached_property
    def comments(self) -> list[str]:
        """What the comments above it say."""
        return comments_of(self.lead)

    @cached_property
    def imports(self) -> list[Binding]:
        """What it binds if it consists of imports, else nothing."""
        bindings = [import_bindings(node) for node in self.nodes]
        return [x for of_node in bindings for x in of_node] if all(bindings) else []

    @cached_property
    def names(self) -> set[str]:
        """The names that it binds."""
        return bound_names(self.nodes)

    def same_text(self, other: "Symbol") -> bool:
        """Return whether the two have the same text, line endings aside."""
        return without_endings(self.body) == without_endings(other.body)

    def same(self, other: "Symbol") -> bool:
        """Return whether the two say the same, comments above included."""
        return self.fingerprint == other.fingerprint and self.comments == other.comments


def comments_of(lines: list[str]) -> list[str]:
    """Return what the comments say of lines that hold nothing else."""
    return [comment_text(line) for line in lines if line.strip()]


def lines_of(symbols: Iterable[Symbol]) -> list[str]:
    """Return the lines of symbols, in order."""
    return [line for symbol in symbols for line in symbol.lines]


def text_for_reader(symbols: Iterable[Symbol]) -> str:
    """Return the text of symbols for a person to read, without the blank lines around each."""
    return "".join(plain_text(symbol.lines).strip("\n") + "\n" for symbol in symbols)


def symbols_of(lines: list[str]) -> list[Symbol]:
    """Return the symbols of a file: HEAD first, END last. Raises SyntaxError."""
    return _symbols_of(tuple(lines))


# A merge reads the same files again and again: the three as they are, the template's two in the
# user's style and names, and the result.
@lru_cache(maxsize=8)
def _symbols_of(lines: tuple[str, ...]) -> list[Symbol]:
    return _Reader(list(lines)).module()


class _Reader:
    """The lines, the syntax tree and the tokens of a file, to be cut into symbols.

    tokens: those that begin in a line, by its number; the first is 0.
    ends: the last line of the logical line that a line belongs to, by its number.
    """

    def __init__(self, lines: list[str]):
        text = plain_text(lines)
        self.lines, self.tree = lines, tree_of(text)
        self.tokens: list[list[tokenize.TokenInfo]] = [[] for _ in range(len(lines) + 2)]
        self.ends = list(range(len(lines) + 2))
        first = None
        for token in tokens_of(text):
            row = token.start[0] - 1
            self.tokens[row].append(token)
            if token.type == tokenize.NEWLINE and first is not None:
                self.ends[first : row + 1] = [row] * (row + 1 - first)
                first = None
            elif first is None and token.type not in _LAYOUT:
                first = row

    def module(self) -> list[Symbol]:
        """Return the symbols of the file."""
        cut = self.head()
        head = self.symbol(HEAD, 0, 0, cut, [])
        return [head, *self.scope(self.tree.body, cut, len(self.lines), 0)]

    def head(self) -> int:
        """Return where the file's own comments end: a shebang, a cookie, all above a blank line."""
        first = _first_row(self.tree.body[0]) if self.tree.body else 0
        for row in reversed(range(first)):
            if not self.lines[row].strip():
                comments = [r for r in range(row) if self.lines[r].strip()]
                return comments[-1] + 1 if comments else 0
        special = [r for r in range(min(first, 2)) if "coding" in self.lines[r]]
        special += [0] if self.lines[:1] and self.lines[0].startswith("#!") else []
        return max(special, default=-1) + 1

    def scope(self, nodes: list[ast.stmt], start: int, stop: int, indent: int) -> list[Symbol]:
        """Return the symbols of one scope, of the lines start .. stop; END holds what is left."""
        symbols: list[Symbol] = []
        for group, top, last in self.groups(nodes):
            end = self.with_comments(last + 1, stop, indent)
            key = "; ".join(statement_title(node) for node in group)
            if docstring_of(group) and group[0] is nodes[0]:
                key = DOC
            members = self.members(group, end)
            symbol = self.symbol(key, start, top, end, group, members)
            if symbols and _repeats(symbols[-1], symbol):
                previous = symbols.pop()
                start -= len(previous.lines)
                top = start + len(previous.lead)
                symbol = self.symbol(key, start, top, end, previous.nodes + group)
            symbols.append(symbol)
            start = end
        return [*symbols, self.symbol(END, start, stop, stop, [])]

    def groups(self, nodes: list[ast.stmt]) -> Iterator[tuple[list[ast.stmt], int, int]]:
        """Yield (statements that share lines, the first line, the last)."""
        group: list[ast.stmt] = []
        top, last = 0, -1
        for node in nodes:
            if _first_row(node) > last and group:
                yield group, top, last
                group = []
            top = top if group else _first_row(node)
            group, last = [*group, node], self.ends[last_line(node) - 1]
        if group:
            yield group, top, last

    def members(self, group: list[ast.stmt], end: int) -> list[Symbol] | None:
        """Return the inside of a class or an `if TYPE_CHECKING` that stands on lines of its own."""
        node, header = group[0], self.ends[group[0].lineno - 1] + 1
        if len(group) > 1 or not isinstance(node, ast.ClassDef | ast.If):
            return None
        if isinstance(node, ast.If) and statement_title(node) != TYPE_CHECKING:
            return None
        first = _first_row(node)
        if _first_row(node.body[0]) < header:
            return None
        top = self.symbol(HEADER, first, first, header, [_without_body(node)])
        return [top, *self.scope(node.body, header, end, node.body[0].col_offset)]

    def with_comments(self, row: int, stop: int, indent: int) -> int:
        """Return the end of a symbol whose code ends above `row`: deeper comments belong to it."""
        end = row
        while row < stop and self.lines[row].lstrip("\f \t").startswith(("#", "\r", "\n")):
            line = self.lines[row]
            if line.strip():
                if len(line) - len(line.lstrip()) <= indent:
                    break
                end = row + 1
            row += 1
        return end

    def symbol(
        self,
        key: str,
        start: int,
        top: int,
        end: int,
        nodes: list[ast.stmt],
        members: list[Symbol] | None = None,
    ) -> Symbol:
        """Return a symbol whose lead is the lines start .. top, and whose body is top .. end."""
        tokens = [token for row in range(top, end) for token in self.tokens[row]]
        lead, body = self.lines[start:top], self.lines[top:end]
        return Symbol(key, lead, body, nodes, fingerprint_code(nodes, tokens), members)


def _first_row(node: ast.stmt) -> int:
    """Return the first line of a statement, its decorators included; that of a file is 0."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(x.lineno for x in decorators)]) - 1


def _repeats(a: Symbol, b: Symbol) -> bool:
    """Return whether two neighbours are one symbol: overloads, a property and its setter."""
    return a.key == b.key and a.key in a.names and not a.imports and not b.imports


def _without_body(node: ast.ClassDef | ast.If) -> ast.stmt:
    """Return a copy of a class or `if` that says what its header says."""
    header = copy.copy(node)
    header.body = []
    return header
