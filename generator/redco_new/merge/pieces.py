"""The verifier's own reading of a file, which shares no code with the merge."""

import ast
import codecs
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

LAYOUT = set("()[]{},;:'\"\\#")  # what a formatter may add, remove or replace
DEFS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Words = Counter


@dataclass
class Pieces:
    """words: what each symbol says, by its dotted path; what no symbol holds, by its scope.

    trees: the syntax of each symbol.  imports: (module, name, bound as) outside of functions.
    defined: how often each path is defined outside of conditions.  attributes: how often each is used,
    as an attribute or a keyword.
    """

    text: str
    words: dict[str, Words] = field(default_factory=lambda: defaultdict(Counter))
    rest: dict[str, Words] = field(default_factory=lambda: defaultdict(Counter))
    trees: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    imports: set[tuple[str, str, str]] = field(default_factory=set)
    defined: Counter[str] = field(default_factory=Counter)
    attributes: Counter[str] = field(default_factory=Counter)

    def same(self, path: str, other: "Pieces") -> bool:
        mine = self.trees.get(path), self.words.get(path)
        return mine == (other.trees.get(path), other.words.get(path))


def read(data: bytes, names: dict[str, str]) -> Pieces:
    """The pieces of a file. names: old -> new; both count as one. Raises if it is not Python."""
    text = with_old_names(decoded(data), names)
    pieces = Pieces(text)
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, *DEFS)) and ast.get_docstring(node, clean=False):
            literal = node.body[0].value
            literal.value = " ".join(literal.value.split())
        elif isinstance(node, ast.Attribute | ast.keyword):
            pieces.attributes[getattr(node, "attr", None) or node.arg] += 1
    lines = text.split("\n")
    add_scope(pieces, "", tree.body, range(len(lines)), lines)
    return pieces


def with_old_names(text: str, names: dict[str, str]) -> str:
    for old, new in names.items():
        text = re.sub(rf"\b{re.escape(new)}\b", old, text)
    return text


def decoded(data: bytes) -> str:
    text = data.removeprefix(codecs.BOM_UTF8).decode(encoding(data))
    return text.replace("\r\n", "\n")


def encoding(data: bytes) -> str:
    bare = data.removeprefix(codecs.BOM_UTF8)
    return tokenize.detect_encoding(io.BytesIO(bare).readline)[0]


def add_scope(pieces: Pieces, path: str, body: list[ast.stmt], rows: range, lines: list[str]):
    """Enter the statements of a scope, which has the lines `rows`."""
    left = set(rows)
    shared = Counter(row for node in body for row in rows_of(node))
    for node in body:
        own = rows_of(node)
        name = path + own_name(node, node is body[0])
        if name != path:
            pieces.defined[name] += 1
        imported = [
            x for x in outside_functions(node) if isinstance(x, ast.Import | ast.ImportFrom)
        ]
        for x in imported:
            found = set(bindings(x))
            pieces.imports |= found
            left -= set(rows_of(x))
            code = [lines[row] for row in rows_of(x)]
            pieces.rest[path] += words(
                "\n".join(line[line.find("#") :] for line in code if "#" in line)
            )
            if node is x:
                pieces.defined.update({path + bound.partition(".")[0] for _, _, bound in found})
        if name == path or max(shared[row] for row in own) > 1:
            continue
        left -= set(own)
        if isinstance(node, ast.ClassDef):
            own = add_class(pieces, name, node, lines)
            node.body = []
        pieces.words[name] += words("\n".join(lines[row] for row in own))
        pieces.trees[name].append(ast.dump(node))
    pieces.rest[path] += words("\n".join(lines[row] for row in sorted(left)))


def add_class(pieces: Pieces, name: str, node: ast.ClassDef, lines: list[str]) -> list[int]:
    """Enter the members of a class. Returns the rows of its header."""
    start = min(rows_of(node.body[0]))
    header = [row for row in rows_of(node) if row < start]
    code = [row for row in header if not lines[row].lstrip().startswith("#")]
    inside = range(start, node.end_lineno)
    add_scope(pieces, f"{name}.", node.body, inside, lines)
    remarks = [lines[row] for row in header if row not in code]
    pieces.rest[f"{name}."] += words("\n".join(remarks))
    return code or list(rows_of(node))[:1]


def rows_of(node: ast.stmt) -> range:
    starts = [node.lineno, *(x.lineno for x in getattr(node, "decorator_list", []))]
    return range(min(starts) - 1, node.end_lineno)


def own_name(node: ast.stmt, first: bool) -> str:
    """The name of a statement that defines one; "" for any other."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case ast.Expr(value=ast.Constant(value=str())) if first:
            return "__doc__"
    return node.name if isinstance(node, DEFS) else ""


def outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, DEFS):
        for child in ast.iter_child_nodes(node):
            yield from outside_functions(child)


def bindings(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, str]]:
    module = "." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    for x in node.names:
        yield module, x.name, x.asname or x.name


def words(text: str) -> Words:
    """The words and signs of `text`; those that belong to layout are left out."""
    found = re.findall(r"\w+|[^\w\s]", text)
    return Counter(w.lower() if w[0].isdigit() else w for w in found if w not in LAYOUT)
