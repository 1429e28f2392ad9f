"""A Python file as a list of symbols that cover its every line."""

import ast
import copy
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from redco_merge.limit import remember, tree_of
from redco_merge.names import (
    DEFINITIONS,
    Binding,
    bound_names,
    eager_names,
    import_bindings,
    statement_title,
)
from redco_merge.source import (
    Fingerprint,
    comment_text,
    docstring_of,
    fingerprint_code,
    last_line,
    plain_text,
    tokens_of,
)

# The keys of what has no name: the comments at the top of a file, the header of a class,
# the comments at the end of a scope, a docstring.
HEAD, HEADER, END, DOC = "<head>", "<header>", "<end>", "__doc__"


@dataclass(frozen=True, eq=False)
class Symbol:
    """Statements of one scope that are merged as one: lines of the file, and what they say.

    key: tells it from its siblings.
    lead: the blank lines and comments above it.
    body: its own lines.
    nodes: its statements.
    members: the symbols that `body` consists of, for a class; or None.
    """

    key: str
    lead: list[str]
    body: list[str]
    nodes: list[ast.stmt]
    members: "list[Symbol] | None" = None

    @property
    def lines(self) -> list[str]:
        return self.lead + self.body

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """What its body says; `says_as` compares it, and works it out only where the text differs."""
        return fingerprint_code(self.nodes, tokens_of(plain_text(self.body)))

    def says_as(self, other: "Symbol") -> bool:
        """Return whether the bodies of the two say the same."""
        return self.body == other.body or self.fingerprint == other.fingerprint

    @cached_property
    def comments(self) -> list[str]:
        """What the comments above it say."""
        return [comment_text(line) for line in self.lead if line.strip()]

    @cached_property
    def imports(self) -> list[Binding]:
        """What it binds if it consists of imports, else nothing."""
        bindings = [import_bindings(node) for node in self.nodes]
        return [x for of_node in bindings for x in of_node] if all(bindings) else []

    @cached_property
    def needs(self) -> set[str]:
        """The names that must have a value when it runs."""
        return eager_names(self.nodes)

    @cached_property
    def names(self) -> set[str]:
        """The names that it binds."""
        return bound_names(self.nodes)

    def same(self, other: "Symbol") -> bool:
        """Return whether the two say the same, comments above included."""
        return self.says_as(other) and self.comments == other.comments


def is_definition(symbol: Symbol) -> bool:
    """Return whether a symbol is a function or a class."""
    return bool(symbol.nodes) and isinstance(symbol.nodes[0], DEFINITIONS)


def text_for_reader(symbols: Iterable[Symbol]) -> str:
    """Return the text of symbols for a person to read, without the blank lines around each."""
    return "".join(plain_text(symbol.lines).strip("\n") + "\n" for symbol in symbols)


def symbols_of(lines: list[str]) -> list[Symbol]:
    """Return the symbols of a file: HEAD first, END last. Raises SyntaxError."""
    return _symbols_of(tuple(lines))


@remember
def _symbols_of(lines: tuple[str, ...]) -> list[Symbol]:
    return _Reader(list(lines)).file()


class _Reader:
    """The lines and the syntax tree of a file, to be cut into symbols."""

    def __init__(self, lines: list[str]):
        self.lines, self.tree = lines, tree_of(plain_text(lines))

    def file(self) -> list[Symbol]:
        """Return the symbols of the file."""
        cut = self.head()
        symbols, end = self.scope(self.tree.body, cut, len(self.lines), 0)
        head = Symbol(HEAD, [], self.lines[:cut], [])
        return [head, *_with_repeats(symbols), Symbol(END, self.lines[end:], [], [])]

    def head(self) -> int:
        """Return where the file's own comments end: a shebang, a cookie, all above a blank line."""
        first = first_row(self.tree.body[0]) if self.tree.body else 0
        for row in reversed(range(first)):
            if not self.lines[row].strip():
                comments = [r for r in range(row) if self.lines[r].strip()]
                return comments[-1] + 1 if comments else 0
        special = [r for r in range(min(first, 2)) if "coding" in self.lines[r]]
        special += [0] if self.lines[:1] and self.lines[0].startswith("#!") else []
        return max(special, default=-1) + 1

    def scope(
        self, nodes: list[ast.stmt], start: int, stop: int, indent: int
    ) -> tuple[list[Symbol], int]:
        """Return the symbols of one scope, of the lines start .. stop, and the line after them."""
        symbols: list[Symbol] = []
        for group in self.groups(nodes):
            top = first_row(group[0])
            end = self.with_comments(self.last_row(group[-1]) + 1, stop, indent)
            key = "; ".join(statement_title(node) for node in group)
            if docstring_of(group) and group[0] is nodes[0]:
                key = DOC
            members = self.members(group, end)
            symbols.append(Symbol(key, self.lines[start:top], self.lines[top:end], group, members))
            start = end
        return symbols, start

    def groups(self, nodes: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
        """Yield the statements that share lines."""
        group: list[ast.stmt] = []
        for node in nodes:
            if group and first_row(node) > self.last_row(group[-1]):
                yield group
                group = []
            group.append(node)
        if group:
            yield group

    def members(self, group: list[ast.stmt], end: int) -> list[Symbol] | None:
        """Return the inside of a class that stands on lines of its own."""
        node = group[0]
        if len(group) > 1 or not isinstance(node, ast.ClassDef):
            return None
        first, header = first_row(node), self.end_of_header(node)
        if first_row(node.body[0]) < header:
            return None
        head = copy.copy(node)  # which says what the header says
        head.body = []
        top = Symbol(HEADER, [], self.lines[first:header], [head])
        inside, last = self.scope(node.body, header, end, node.body[0].col_offset)
        return [top, *_with_repeats(inside), Symbol(END, self.lines[last:end], [], [])]

    def last_row(self, node: ast.stmt) -> int:
        """Return the last line of a statement, with those that a backslash adds below it."""
        row = last_line(node) - 1
        rest = self.lines[row].encode()[node.end_col_offset :]
        while b"#" not in rest and rest.rstrip().endswith(b"\\"):
            row += 1
            rest = self.lines[row].encode()
        return row

    def end_of_header(self, node: ast.ClassDef) -> int:
        """Return the line after the logical line that a class begins with."""
        lines = (line.rstrip("\r\n") + "\n" for line in self.lines[node.lineno - 1 :])
        tokens = tokenize.generate_tokens(lambda: next(lines))
        return node.lineno - 1 + next(x.start[0] for x in tokens if x.type == tokenize.NEWLINE)

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


def first_row(node: ast.stmt | ast.pattern) -> int:
    """Return the first line of a statement, its decorators included; that of a file is 0."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(x.lineno for x in decorators)]) - 1


def _with_repeats(symbols: Iterable[Symbol]) -> Iterator[Symbol]:
    """Yield symbols, neighbours that repeat each other as one."""
    run: list[Symbol] = []
    for symbol in symbols:
        if run and not _repeats(run[-1], symbol):
            yield _joined(run)
            run = []
        run.append(symbol)
    if run:
        yield _joined(run)


def _joined(run: list[Symbol]) -> Symbol:
    """Return neighbours as one symbol."""
    first, *rest = run
    body = [*first.body, *(line for symbol in rest for line in symbol.lines)]
    nodes = [node for symbol in run for node in symbol.nodes]
    return Symbol(first.key, first.lead, body, nodes) if rest else first


def _repeats(a: Symbol, b: Symbol) -> bool:
    """Return whether two neighbours are one symbol: overloads, a property and its setter."""
    return a.key == b.key and a.key in a.names and not a.imports and not b.imports
