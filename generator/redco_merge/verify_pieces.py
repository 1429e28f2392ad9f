"""The verifier's own reading of a file, which shares no code with the merge."""

import ast
import builtins
import codecs
import copy
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, fields

from redco_merge.memory import remember
from redco_merge.trees import children_of, chunks_of, nodes_of

_LAYOUT = set("()[]{},;:'\"\\#")  # what a formatter may add, remove or replace
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_WITH_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)
Words = Counter[str]


@dataclass
class Pieces:
    """A file in pieces.

    text: all of it, with the old names.
    words: what each symbol says, by its dotted path.
    rest: what no symbol holds, by its scope.
    nodes: the text and the syntax of each symbol's statements.
    imports: (module, name, alias) outside of functions.
    definitions: how often each path is defined outside of conditions.
    attributes: how often each name is used as an attribute or a keyword.
    """

    text: str
    words: dict[str, Words] = field(default_factory=lambda: defaultdict(Counter))
    rest: dict[str, Words] = field(default_factory=lambda: defaultdict(Counter))
    nodes: dict[str, list[tuple[str, ast.stmt]]] = field(default_factory=lambda: defaultdict(list))
    imports: set[tuple[str, str, str]] = field(default_factory=set)
    definitions: Counter[str] = field(default_factory=Counter)
    attributes: Counter[str] = field(default_factory=Counter)

    def add(self, chunk: "Pieces") -> None:
        """Enter all of a chunk."""
        for path, words in chunk.words.items():
            self.words[path].update(words)
        for path, words in chunk.rest.items():
            self.rest[path].update(words)
        for path, nodes in chunk.nodes.items():
            self.nodes[path] += nodes
        self.imports |= chunk.imports
        self.definitions.update(chunk.definitions)
        self.attributes.update(chunk.attributes)

    def same(self, path: str, other: "Pieces") -> bool:
        """Return whether a symbol says the same in both files."""
        if self.words.get(path) != other.words.get(path):
            return False
        mine, others = self.nodes.get(path, []), other.nodes.get(path, [])
        pairs = zip(mine, others, strict=False)
        return len(mine) == len(others) and all(
            a == b or _tree_of(x) == _tree_of(y) for (a, x), (b, y) in pairs
        )


def read_pieces(data: bytes, names: dict[str, str]) -> Pieces:
    """Return the pieces of a file. Raises if it is not Python.

    names: old -> new; both count as one.
    """
    text = with_old_names(decode_code(data), names)
    pieces = Pieces(text)
    for i, chunk in enumerate(chunks_of(text)):
        pieces.add(_read_chunk(chunk, i == 0))
    return pieces


@remember
def _read_chunk(chunk: str, first: bool) -> Pieces:
    """Return the pieces of some statements at the top of a file, maybe its first."""
    pieces = Pieces(chunk)
    for node in nodes_of(chunk):
        if isinstance(node, ast.Attribute):
            pieces.attributes[node.attr] += 1
        elif isinstance(node, ast.keyword) and node.arg:
            pieces.attributes[node.arg] += 1
    lines = chunk.split("\n")
    _add_scope(pieces, "", nodes_of(chunk)[0].body, range(len(lines)), lines, first)
    return pieces


def with_old_names(text: str, names: dict[str, str]) -> str:
    """Return `text` with the old names. names: old -> new."""
    old_names = {new: old for old, new in names.items()}
    any_new = "|".join(map(re.escape, old_names))
    return re.sub(rf"\b(?:{any_new})\b", lambda x: old_names[x[0]], text) if names else text


def path_with_old_name(symbol: str, names: dict[str, str]) -> str:
    """Return a dotted path with the old name of what the user renamed. names: old -> new."""
    first, dot, rest = symbol.partition(".")
    return {new: old for old, new in names.items()}.get(first, first) + dot + rest


def decode_code(data: bytes) -> str:
    """Return the text of a file, with "\\n" line endings. Raises if it cannot be decoded."""
    text = data.removeprefix(codecs.BOM_UTF8).decode(encoding_of(data))
    return text.replace("\r\n", "\n")


def encoding_of(data: bytes) -> str:
    """Return the encoding that a file declares. Raises SyntaxError if Python does not know it."""
    bare = data.removeprefix(codecs.BOM_UTF8)
    return tokenize.detect_encoding(io.BytesIO(bare).readline)[0]


def compiles(text: str) -> bool:
    """Return whether a text is Python."""
    try:
        compile(text, "<merge>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def count_words(text: str) -> Words:
    """Return the words and signs of `text`; those that belong to layout are left out."""
    words = re.findall(r"\w+|[^\w\s]", text)
    return Counter(w.lower() if w[0].isdigit() else w for w in words if w not in _LAYOUT)


def _add_scope(
    pieces: Pieces,
    path: str,
    body: list[ast.stmt],
    rows: Iterable[int],
    lines: list[str],
    first: bool = True,
) -> None:
    """Enter the statements of a scope, maybe its `first`, which have the lines `rows`."""
    left = set(rows)
    shared = Counter(row for node in body for row in _rows_of(node))
    for node in body:
        own = list(_rows_of(node))
        name = path + _own_name(node, first and node is body[0])
        if name != path:
            pieces.definitions[name] += 1
        for x in _imports_outside_functions(node):
            bindings = set(bindings_in(x))
            pieces.imports |= bindings
            left -= set(_rows_of(x))
            code = [lines[row] for row in _rows_of(x)]
            remarks = "\n".join(line[line.find("#") :] for line in code if "#" in line)
            pieces.rest[path] += count_words(remarks)
            if node is x:
                names = {path + alias.partition(".")[0] for _, _, alias in bindings}
                pieces.definitions.update(names)
        if name == path or max(shared[row] for row in own) > 1:
            continue
        left -= set(own)
        if isinstance(node, ast.ClassDef):
            own = _add_class(pieces, name, node, lines)
            node = copy.copy(node)
            node.body = []
        text = "\n".join(lines[row] for row in own)
        pieces.words[name] += count_words(text)
        pieces.nodes[name].append((text, node))
    pieces.rest[path] += count_words("\n".join(lines[row] for row in sorted(left)))


def _add_class(pieces: Pieces, name: str, node: ast.ClassDef, lines: list[str]) -> list[int]:
    """Enter the members of a class. Returns the rows of its header."""
    rows = _rows_of(node)
    start = min(_rows_of(node.body[0]))
    header = [row for row in rows if row < start]
    code = [row for row in header if not lines[row].lstrip().startswith("#")]
    _add_scope(pieces, f"{name}.", node.body, range(start, rows.stop), lines)
    remarks = [lines[row] for row in header if row not in code]
    pieces.rest[f"{name}."] += count_words("\n".join(remarks))
    return code or list(rows)[:1]


@remember
def _tree_of(node: ast.stmt) -> Hashable:
    """Return the syntax of a statement as tuples; of a text that is a statement, its words."""
    return _syntax_of(node)


def _syntax_of(value: object) -> Hashable:
    match value:
        case ast.Expr(value=ast.Constant(value=str(docstring))):
            return " ".join(docstring.split())
        case ast.AST():
            return (type(value), *[_syntax_of(getattr(value, x, None)) for x in value._fields])
        case list():
            return tuple([_syntax_of(x) for x in value])
    return repr(value)


def _rows_of(node: ast.stmt) -> range:
    """Return the lines of a statement, its decorators included; the first of a file is 0."""
    starts = [node.lineno, *(x.lineno for x in getattr(node, "decorator_list", []))]
    return range(min(starts) - 1, node.end_lineno or node.lineno)


def _own_name(node: ast.stmt, first: bool) -> str:
    """Return the name of a statement that defines one; "" for any other."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case ast.Expr(value=ast.Constant(value=str())) if first:
            return "__doc__"
    return node.name if isinstance(node, _DEFINITIONS) else ""


def _imports_outside_functions(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports in a statement, but for those inside definitions."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    elif not isinstance(node, _DEFINITIONS):
        for child in children_of(node):
            if isinstance(child, _WITH_STATEMENTS):
                yield from _imports_outside_functions(child)


def bindings_in(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, str]]:
    """Yield (module, name, alias) of an import."""
    module = "." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    for x in node.names:
        yield module, x.name, x.asname or x.name


@dataclass(frozen=True)
class _Names:
    """The names of a file.

    used: those that are read.
    bound: those that are bound, in any scope; "*" for all of a module.
    plain: all but attributes and arguments.
    definitions: of functions and classes.
    exports: those in `__all__`.
    """

    used: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    plain: set[str] = field(default_factory=set)
    definitions: set[str] = field(default_factory=set)
    exports: set[str] = field(default_factory=set)


def _names_of(text: str) -> _Names:
    """Return the names of a file. Raises SyntaxError."""
    names = [_names_in(chunk) for chunk in chunks_of(text)]
    parts = (x.name for x in fields(_Names))
    return _Names(*(set().union(*(getattr(x, part) for x in names)) for part in parts))


@remember
def _names_in(chunk: str) -> _Names:
    """Return the names of a chunk."""
    names = _Names()
    for node in nodes_of(chunk):
        match node:
            case ast.Name(id=name, ctx=ctx):
                names.plain.add(name)
                (names.used if isinstance(ctx, ast.Load) else names.bound).add(name)
            case ast.alias(name=name, asname=alias):
                names.bound.add(alias or name.partition(".")[0])
            case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                names.bound.add(name)
            case ast.Assign():
                names.exports.update(_exports(node))
            case _ if isinstance(other := getattr(node, "name", None), str):
                names.bound.add(other)
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    names.definitions.add(other)
    return names


def defined_names(text: str) -> set[str]:
    """Return the names that the code of a file has, as a variable, a function or a class."""
    names = _names_of(text)
    return names.plain | names.definitions


def used_names(text: str) -> set[str]:
    """Return the names that a file uses, and those that it exports."""
    names = _names_of(text)
    return names.plain | names.exports


def undefined_names(text: str) -> set[str]:
    """Return the names that are used and bound nowhere in the file, in any scope."""
    names = _names_of(text)
    lacking = (names.used | names.exports) - names.bound - predefined_names()
    return set() if "*" in names.bound else lacking


def _exports(node: ast.AST) -> list[str]:
    """Return the names in an assignment of `__all__`; nothing for any other node."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id="__all__")],
            value=ast.List(elts=elements) | ast.Tuple(elts=elements),
        ):
            constants = [x.value for x in elements if isinstance(x, ast.Constant)]
            return [x for x in constants if isinstance(x, str)]
    return []


def exported_names(chunk: str) -> set[str]:
    """Return the names in the assignments of `__all__`, of some statements of a file."""
    return _names_in(chunk).exports if "__all__" in chunk else set()


def predefined_names() -> set[str]:
    """Return the names that Python itself defines in any module."""
    return {*dir(builtins), "__file__", "__path__", "__annotations__"}
