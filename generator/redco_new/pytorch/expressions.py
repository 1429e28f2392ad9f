"""Python that is put together: templates, whose names stand for other expressions."""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Mapping

SHORT = 8  # signs of a number that its author has written


def parse(text: str) -> ast.expr:
    """Return the expression that a text is."""
    return copy.deepcopy(_parse(text))


@functools.cache
def _parse(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def fill(template: str, **parts: ast.expr) -> ast.expr:
    """Return a template, in which each name of `parts` is what it stands for."""
    return _Fill(parts).visit(parse(template))


def fill_statement(statement: ast.stmt, parts: Mapping[str, ast.expr]) -> ast.stmt:
    """Return a statement, in which each name of `parts` is what it stands for."""
    filled: ast.stmt = _Fill(parts).visit(statement)
    return filled


def names_in(template: str) -> set[str]:
    """Return the names of a template that are no attributes."""
    return {node.id for node in ast.walk(_parse(template)) if isinstance(node, ast.Name)}


def show(expression: ast.expr) -> str:
    """Return an expression as Python."""
    return ast.unparse(expression)


def sequence(items: list[ast.expr]) -> ast.expr:
    """Return a tuple of expressions."""
    return ast.Tuple(items, ast.Load())


class _Fill(ast.NodeTransformer):
    def __init__(self, parts: Mapping[str, ast.expr]) -> None:
        self._parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return what a name stands for."""
        return self._parts.get(node.id, node)

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        """Fill the value of an argument, whose name stays."""
        return ast.keyword(node.arg, self.visit(node.value))


def literal(x: float) -> str:
    """Return a number as Python: 0.01 of 1 - 0.99, which is that to 12 digits."""
    short = repr(float(f"{x:.12g}")) if isinstance(x, float) else repr(x)
    return short if len(short) <= SHORT else repr(x)
