"""Names that a whole file uses: without binding them, before binding them, as attributes."""

import ast
import builtins
import symtable
from collections import Counter
from collections.abc import Iterator

from redco_new.merge.names import bound, eager

KNOWN = {*dir(builtins), "__file__", "__name__", "__doc__", "__path__", "__annotations__"}


def unbound(text: str) -> set[str]:
    """The names that `text` uses or exports, and nothing in it binds. Raises SyntaxError."""
    used, known = exported(text), set(KNOWN)
    top = symtable.symtable(text, "<merge>", "exec")
    for table in tables(top):
        for symbol in table.get_symbols():
            if table is top or symbol.is_global():
                if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
                    known.add(symbol.get_name())
                if symbol.is_referenced():
                    used.add(symbol.get_name())
    return set() if has_star(text) else used - known


def tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from tables(child)


def has_star(text: str) -> bool:
    return any(
        isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        for node in ast.walk(ast.parse(text))
    )


def exported(text: str) -> set[str]:
    """The names in `__all__`."""
    lists = [
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign | ast.AugAssign) and "__all__" in bound([node])
    ]
    constants = [x for each in lists for x in ast.walk(each) if isinstance(x, ast.Constant)]
    return {x.value for x in constants if isinstance(x.value, str)}


def attributes(text: str) -> Counter[str]:
    """How often each attribute is read, and each keyword given."""
    found: Counter[str] = Counter()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            found[node.attr] += 1
        elif isinstance(node, ast.keyword) and node.arg:
            found[node.arg] += 1
    return found


def early(text: str) -> set[str]:
    """The names that a statement of the file needs when it runs, and only a later one binds."""
    found, known = set(), set()
    statements = ast.parse(text).body
    every = bound(statements)
    for node in statements:
        known |= bound([node])
        found |= (eager([node]) & every) - known
    return found


def defined_attributes(text: str) -> set[str]:
    """The attributes that `text` gives to its own classes: members, and what is assigned."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            found |= bound(node.body)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return found


def identifiers(node: ast.AST) -> set[str]:
    return {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}
