"""A Python file as a list of symbols that cover its every line."""

import ast
import tokenize
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from redco_new.merge.fingerprint import comment_text, fingerprint, is_docstring, parse, tokens_of
from redco_new.merge.names import Binding, bindings, bound, title
from redco_new.merge.source import bare, plain

HEAD, HEADER, END, DOC = "<head>", "<header>", "<end>", "__doc__"


@dataclass(frozen=True, eq=False)
class Symbol:
    """Statements of one scope that are merged as one: lines of the file, and what they say.

    key: tells it from its siblings.  lead: the blank lines and comments above it.
    members: the symbols that `body` consists of, for a class and an `if TYPE_CHECKING`; or None.
    """

    key: str
    lead: list[str]
    body: list[str]
    nodes: list[ast.stmt]
    print: Hashable
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
        found = [bindings(node) for node in self.nodes]
        return [x for each in found for x in each] if all(found) else []

    @cached_property
    def names(self) -> set[str]:
        return bound(self.nodes)

    def same_text(self, other: "Symbol") -> bool:
        return bare(self.body) == bare(other.body)

    def same(self, other: "Symbol") -> bool:
        """Whether the two say the same, comments above included."""
        return self.print == other.print and self.comments == other.comments


def comments_of(lines: list[str]) -> list[str]:
    return [comment_text(line) for line in lines if line.strip()]


def shown(symbols: Iterable[Symbol]) -> str:
    """The text of symbols, for a person to read."""
    return "".join(plain(symbol.lines).strip("\n") + "\n" for symbol in symbols)


def symbols_of(lines: list[str]) -> list[Symbol]:
    """The symbols of a file: HEAD first, END last. Raises SyntaxError."""
    return _symbols_of(tuple(lines))


@lru_cache(maxsize=8)  # a merge asks for the same three files again and again
def _symbols_of(lines: tuple[str, ...]) -> list[Symbol]:
    return _Reader(list(lines)).module()


class _Reader:
    def __init__(self, lines: list[str]):
        text = plain(lines)
        self.lines, self.tree = lines, parse(text)
        self.tokens: list[list[tokenize.TokenInfo]] = [[] for _ in range(len(lines) + 2)]
        self.ends = list(range(len(lines) + 2))  # line -> the last one of its logical line
        first = None
        for token in tokens_of(text):
            row = token.start[0] - 1
            self.tokens[row].append(token)
            if token.type == tokenize.NEWLINE:
                self.ends[first : row + 1] = [row] * (row + 1 - first)
                first = None
            elif first is None and token.type not in LAYOUT:
                first = row

    def module(self) -> list[Symbol]:
        cut = self.head()
        head = self.symbol(HEAD, 0, 0, cut, [])
        return [head, *self.scope(self.tree.body, cut, len(self.lines), 0)]

    def head(self) -> int:
        """Where the comments of the file end: a shebang, a cookie, all above the last blank line."""
        first = self.first(self.tree.body[0]) if self.tree.body else 0
        for row in reversed(range(first)):
            if not self.lines[row].strip():
                comments = [r for r in range(row) if self.lines[r].strip()]
                return comments[-1] + 1 if comments else 0
        special = [r for r in range(min(first, 2)) if "coding" in self.lines[r]]
        special += [0] if self.lines[:1] and self.lines[0].startswith("#!") else []
        return max(special, default=-1) + 1

    def scope(self, nodes: list[ast.stmt], start: int, stop: int, indent: int) -> list[Symbol]:
        """The symbols of one scope, whose lines are start .. stop; END holds what is left."""
        found: list[Symbol] = []
        for group, top, last in self.groups(nodes):
            end = self.with_comments(last + 1, stop, indent)
            key = "; ".join(title(node) for node in group)
            if is_docstring(group) and group[0] is nodes[0]:
                key = DOC
            members = self.members(group, end)
            symbol = self.symbol(key, start, top, end, group, members)
            if found and repeats(found[-1], symbol):
                previous = found.pop()
                start -= len(previous.lines)
                top = start + len(previous.lead)
                symbol = self.symbol(key, start, top, end, previous.nodes + group)
            found.append(symbol)
            start = end
        return [*found, self.symbol(END, start, stop, stop, [])]

    def groups(self, nodes: list[ast.stmt]) -> Iterator[tuple[list[ast.stmt], int, int]]:
        """(statements that share lines, the first line, the last)."""
        group, top, last = [], 0, -1
        for node in nodes:
            if self.first(node) > last and group:
                yield group, top, last
                group = []
            top = top if group else self.first(node)
            group, last = [*group, node], self.ends[node.end_lineno - 1]
        if group:
            yield group, top, last

    def members(self, group: list[ast.stmt], end: int) -> list[Symbol] | None:
        """The inside of a class or an `if TYPE_CHECKING` that stands on lines of its own."""
        node, header = group[0], self.ends[group[0].lineno - 1] + 1
        container = isinstance(node, ast.ClassDef) or title(node) == "if TYPE_CHECKING"
        if not container or len(group) > 1 or self.first(node.body[0]) < header:
            return None
        top = self.symbol(HEADER, self.first(node), self.first(node), header, [without_body(node)])
        return [top, *self.scope(node.body, header, end, node.body[0].col_offset)]

    def with_comments(self, row: int, stop: int, indent: int) -> int:
        """The end of a symbol whose code ends above `row`: comments that are deeper belong to it."""
        end = row
        while row < stop and self.lines[row].lstrip("\f \t").startswith(("#", "\r", "\n")):
            line = self.lines[row]
            if line.strip():
                if len(line) - len(line.lstrip()) <= indent:
                    break
                end = row + 1
            row += 1
        return end

    def first(self, node: ast.stmt) -> int:
        """The first line of a statement, its decorators included."""
        decorators = getattr(node, "decorator_list", [])
        return min([node.lineno, *(x.lineno for x in decorators)]) - 1

    def symbol(self, key: str, start: int, top: int, end: int, nodes, members=None) -> Symbol:
        tokens = [token for row in range(top, end) for token in self.tokens[row]]
        lead, body = self.lines[start:top], self.lines[top:end]
        return Symbol(key, lead, body, nodes, fingerprint(nodes, tokens), members)


LAYOUT = {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def repeats(a: Symbol, b: Symbol) -> bool:
    """Whether two neighbours are one symbol: overloads, a property and its setter."""
    return a.key == b.key and a.key in a.names and not a.imports and not b.imports


def without_body(node: ast.stmt) -> ast.stmt:
    """A copy of a class or `if` that says what its header says."""
    fields = {name: value for name, value in ast.iter_fields(node) if name != "body"}
    return type(node)(**fields, body=[])
