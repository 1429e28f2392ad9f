"""Edits of a Python file as a user or a template makes them, each with a mark that can be found again."""

import ast
import re
from collections.abc import Callable

Pick = Callable[[int], int]  # n -> one of 0 .. n - 1
MARK = re.compile(r"(?:user|tmpl)_\d+")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SIMPLE = (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)


def marks(text: str) -> list[str]:
    return MARK.findall(text)


def edited(text: str, who: str, count: int, pick: Pick, kinds: tuple[str, ...]) -> str:
    """`text` after `count` edits of `who`; an edit that has no place in it is left out."""
    for n in range(count):
        changed = EDITS[kinds[pick(len(kinds))]](text, f"{who}_{pick(10**6)}{n}", pick)
        if changed is not None and parses(changed):
            text = changed
    return text


def parses(text: str) -> bool:
    try:
        compile(text, "edit", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def rows(node: ast.AST) -> tuple[int, int]:
    """The lines of a statement with its decorators: (first, one behind the last)."""
    starts = [node.lineno, *(x.lineno for x in getattr(node, "decorator_list", []))]
    return min(starts) - 1, node.end_lineno


def some(text: str, pick: Pick, fits: Callable[[ast.AST], bool]) -> ast.AST | None:
    found = [node for node in ast.walk(ast.parse(text)) if fits(node)]
    return found[pick(len(found))] if found else None


def put(text: str, at: int, *new: str, instead: int = 0) -> str:
    lines = text.split("\n")
    return "\n".join([*lines[:at], *new, *lines[at + instead :]])


def indent(text: str, row: int) -> str:
    line = text.split("\n")[row]
    return line[: len(line) - len(line.lstrip())]


def statement(text: str, mark: str, pick: Pick) -> str | None:
    """A new line in a function."""
    node = some(text, pick, lambda x: isinstance(x, FUNCTIONS) and x.body[0].lineno > x.lineno)
    if node is None:
        return None
    inside = [x for x in node.body if not is_text(x)]
    if not inside:
        return None
    row = rows(inside[pick(len(inside))])[0]
    return put(text, row, f"{indent(text, row)}{mark} = {len(mark)}")


def change(text: str, mark: str, pick: Pick) -> str | None:
    """A value that becomes another."""
    node = some(
        text,
        pick,
        lambda x: isinstance(x, SIMPLE)
        and x.lineno == x.end_lineno
        and isinstance(getattr(x, "value", None), ast.expr)
        and not is_text(x),
    )
    if node is None:
        return None
    row, value = node.lineno - 1, node.value
    line = text.split("\n")[row].encode()
    start, end = value.col_offset, value.end_col_offset
    new = line[:start] + f'("{mark}", '.encode() + line[start:end] + b")" + line[end:]
    return put(text, row, new.decode(), instead=1)


def is_text(node: ast.AST) -> bool:
    value = getattr(node, "value", None)
    return isinstance(node, ast.Expr) and isinstance(value, ast.Constant)


def remark(text: str, mark: str, pick: Pick) -> str | None:
    """A comment above a statement."""
    node = some(text, pick, lambda x: isinstance(x, ast.stmt))
    if node is None:
        return None
    row = rows(node)[0]
    return put(text, row, f"{indent(text, row)}# {mark}")


def function(text: str, mark: str, pick: Pick) -> str | None:
    """A new function or constant of the file."""
    body = [x for x in ast.parse(text).body if not is_text(x)]
    body = [x for x in body if getattr(x, "module", "") != "__future__"]
    if not body:
        return None
    row = rows(body[pick(len(body))])[0]
    if pick(2):
        return put(text, row, f"{mark.upper()} = '{mark}'", "")
    return put(text, row, f"def {mark}(x):", "    return x", "", "")


def member(text: str, mark: str, pick: Pick) -> str | None:
    """A new field or method."""
    node = some(text, pick, lambda x: isinstance(x, ast.ClassDef) and x.body[0].lineno > x.lineno)
    if node is None:
        return None
    at = node.body[pick(len(node.body))]
    row = rows(at)[0]
    if is_text(at):
        return None
    space = indent(text, row)
    if pick(2):
        return put(text, row, f"{space}{mark}: int = 1")
    return put(text, row, f"{space}def {mark}(self):", f"{space}    return 1", "")


def module(text: str, mark: str, pick: Pick) -> str | None:
    """A new import, or a name more in one."""
    imports = (ast.Import, ast.ImportFrom)
    tree = ast.parse(text).body
    found = [x for x in tree if isinstance(x, imports) and x.lineno == x.end_lineno]
    if not found:
        return None
    node = found[pick(len(found))]
    one = isinstance(node, ast.ImportFrom) and node.names[0].name != "*"
    line = text.split("\n")[node.lineno - 1]
    if one and node.module != "__future__" and not set("#;(") & set(line) and pick(2):
        return put(text, node.lineno - 1, f"{line}, {mark}", instead=1)
    return put(text, node.lineno, f"import {mark}")


def delete(text: str, mark: str, pick: Pick) -> str | None:
    """A function, class, field or method that is gone."""
    scopes = [x for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Module | ast.ClassDef)]
    scope = scopes[pick(len(scopes))]
    found = [x for x in scope.body if isinstance(x, (*FUNCTIONS, ast.ClassDef, ast.AnnAssign))]
    if not found or len(scope.body) < 2:
        return None
    first, last = rows(found[pick(len(found))])
    rest = text.split("\n")[last:]
    deeper = indent(text, first) + " "  # a comment that ends a block goes with it
    while rest and rest[0].startswith(deeper) and rest[0].lstrip().startswith("#"):
        last, rest = last + 1, rest[1:]
    return put(text, first, instead=last - first)


def swap(text: str, mark: str, pick: Pick) -> str | None:
    """Two neighbouring functions in the other order."""
    body = ast.parse(text).body
    pairs = [
        (a, b)
        for a, b in zip(body, body[1:], strict=False)
        if isinstance(a, FUNCTIONS) and isinstance(b, FUNCTIONS)
    ]
    if not pairs:
        return None
    (a, b), (c, d) = (rows(x) for x in pairs[pick(len(pairs))])
    lines = text.split("\n")
    return "\n".join([*lines[:a], *lines[c:d], *lines[b:c], *lines[a:b], *lines[d:]])


def decorate(text: str, mark: str, pick: Pick) -> str | None:
    node = some(text, pick, lambda x: isinstance(x, FUNCTIONS))
    if node is None:
        return None
    row = rows(node)[0]
    return put(text, row, f"{indent(text, row)}@(lambda f, {mark}=1: f)")


def document(text: str, mark: str, pick: Pick) -> str | None:
    """A line more in a docstring."""
    documented = (*FUNCTIONS, ast.ClassDef, ast.Module)
    node = some(text, pick, lambda x: isinstance(x, documented) and bool(ast.get_docstring(x)))
    if node is None:
        return None
    row = node.body[0].end_lineno - 1
    line = text.split("\n")[row]
    if not line.rstrip().endswith('"""') or node.body[0].lineno - 1 == row and not pick(2):
        return None
    space = indent(text, node.body[0].lineno - 1)
    return put(text, row, line.rstrip()[:-3], f'{space}{mark}."""', instead=1)


EDITS = {
    "statement": statement,
    "change": change,
    "remark": remark,
    "function": function,
    "member": member,
    "module": module,
    "delete": delete,
    "swap": swap,
    "decorate": decorate,
    "document": document,
}
