"""What Python's own parser makes of a text, chunk by chunk: for the merge and for its check, both of which only read it.

The files of a merge differ in a few statements: a chunk that several of them have is read once.
"""

import ast
import re
import symtable
from collections.abc import Iterator
from typing import Any

from redco_merge.limit import check_time, remember

# Lines at the top that go on with a statement above, and those that belong to what is below.
_GOES_ON = re.compile(r"(?:else|elif|except|finally)\b|[)\]}\s]")
_BELOW = re.compile(r"[@#]|\s*$")


@remember
def chunks_of(text: str) -> tuple[str, ...]:
    """Return a text cut above some of the statements at its top, which each chunk parses by itself.

    Raises SyntaxError.
    """
    cuts = [*_cuts(text), len(text)]
    chunks: list[str] = []
    at = i = 0
    while i < len(cuts):
        check_time()
        more = 1  # cuts of which the first are inside of a statement: twice as far each time
        while not _is_whole(text[at : cuts[i]]):
            if cuts[i] == len(text):
                ast.parse(text)  # raises, and counts the lines of all of it
                return (text,)
            i, more = min(i + more, len(cuts) - 1), 2 * more
        chunks.append(text[at : cuts[i]])
        at, i = cuts[i], i + 1
    return tuple(chunks)


def _cuts(text: str) -> Iterator[int]:
    """Yield where chunks may end: above the blank lines, comments and decorators of a statement.

    Some are inside of a statement: of a text over lines, or between brackets.
    """
    at = cut = 0
    above, has_statement = "", False
    for line in text.split("\n"):
        at += len(line) + 1
        if not _BELOW.match(line):
            if not _GOES_ON.match(line) and not above.endswith("\\"):
                if has_statement:
                    yield cut
                has_statement = True
            cut = at
        above = line


def _is_whole(chunk: str) -> bool:
    try:
        tree_of(chunk)
    except SyntaxError:
        return False
    return True


# Of each kind of node, the fields that may hold nodes which say more than their kind.
_PLAIN = {
    "ctx",
    "op",
    "ops",
    "id",
    "attr",
    "arg",
    "kind",
    "type_comment",
    "level",
    "module",
    "asname",
}
_FIELDS = {
    kind: tuple(x for x in kind._fields if x not in _PLAIN and kind is not ast.Constant)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


@remember
def tree_of(chunk: str) -> ast.Module:
    """Return the syntax tree of a chunk. Raises SyntaxError."""
    return ast.parse(chunk)


@remember
def nodes_of(chunk: str) -> list[Any]:
    """Return all nodes of a chunk. Raises SyntaxError."""
    check_time()  # for whatever is asked of a chunk begins here
    nodes: list[ast.AST] = [tree_of(chunk)]
    for node in nodes:  # which grows
        nodes += children_of(node)
    return nodes


def children_of(node: ast.AST) -> list[ast.AST]:
    """Return the nodes right below a node, without operators: in a third of the time of ast.iter_child_nodes."""
    children: list[ast.AST] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            children.append(value)
        elif isinstance(value, list):
            children += [x for x in value if isinstance(x, ast.AST)]
    return children


@remember
def names_of_file(chunk: str, postponed: bool) -> tuple[set[str], set[str]]:
    """Return the names of the file that a chunk uses, and those that it binds, in whatever scope.

    postponed: whether the file postpones annotations, which use no names then. Raises SyntaxError.
    """
    used, bound = set[str](), set[str]()
    head = "from __future__ import annotations\n" if postponed else ""
    tables = [symtable.symtable(head + chunk, "<merge>", "exec")]
    for table in tables:  # which grows
        tables += table.get_children()
        function = table if isinstance(table, symtable.Function) else None
        names = function.get_globals() if function else table.get_identifiers()
        for symbol in map(table.lookup, names):
            if table is tables[0] or symbol.is_global():
                if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
                    bound.add(symbol.get_name())
                if symbol.is_referenced():
                    used.add(symbol.get_name())
    return used, bound


def postpones_annotations(text: str) -> bool:
    """Return whether a file has `from __future__ import annotations`. Raises SyntaxError."""
    nodes = (node for x in chunks_of(text) if "__future__" in x for node in nodes_of(x))
    imports = (x for x in nodes if isinstance(x, ast.ImportFrom) and x.module == "__future__")
    return any(name.name == "annotations" for x in imports for name in x.names)
