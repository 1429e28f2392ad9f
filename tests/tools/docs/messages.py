"""All messages of RedcoError and UserError, as the code that raises them has them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ERRORS = {"RedcoError", "Refusal", "UserError"}


def messages(path: Path) -> Iterator[list[str]]:
    """Yield the parts of each message that a module raises: where, what, what to do; of UserError all in one."""
    for function in functions(ast.parse(path.read_text())):
        words: dict[str, str] = {}
        for node in in_order(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                words[node.targets[0].id] = text_of(node.value, words)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ERRORS:
                parts = [text_of(part, words) for part in node.args]
                if re.search(r"\w{4}", " ".join(parts)):
                    yield parts


def functions(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the functions of a module, and the module for what is in none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def in_order(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function as they are written, without those of functions in it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from in_order(child)
            yield child


def text_of(node: ast.expr, words: dict[str, str]) -> str:
    """Return an expression as a message shows it: … for what is known when it is raised alone."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(text_of(value, words) for value in values)
        case ast.FormattedValue(value=value):
            return text_of(value, words)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return text_of(left, words) + text_of(right, words)
        case ast.IfExp(body=body, orelse=other):
            texts = [text for one in (body, other) if (text := text_of(one, words)).strip()]
            return " / ".join(dict.fromkeys(texts))
        case ast.Name(id=name):
            return words.get(name, "…")
    return "…"
