"""Calls that a codemod is about: which they are, and what their arguments are. Refuses what is not sure."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import Assignment

from redco_merge.migrate.codemods import Call
from redco_merge.migrate.source import Source

SELF = "self"  # what a codemod calls the instance of a method


@dataclass(frozen=True)
class Match:
    """A call that a codemod rewrites.

    node: the call.
    arguments: name in the codemod -> what stands there.
    """

    node: cst.Call
    arguments: dict[str, cst.BaseExpression]


def match_call(source: Source, node: cst.Call, codemod: Call, package: str) -> Match | None:
    """Return the match of a codemod and a call; None where it is another call, or may be one."""
    pattern = ast.parse(codemod.before, mode="eval").body
    assert isinstance(pattern, ast.Call)
    bound: dict[str, cst.BaseExpression] = {}
    if not _match_function(source, node.func, pattern.func, package, bound):
        return None
    if "#" in source.code(node) or not _bind(source, node, pattern, bound):
        return None  # a comment in it would have no place in what is written
    for name, full_name in codemod.where.items():
        if source.full_name(bound[name]) != in_package(full_name, package):
            return None
    return Match(node, bound) if _order_is_free(bound, codemod) else None


def in_package(full_name: str, package: str) -> str:
    """Return a name of a codemod with the package of the project in the place of `project`."""
    root, dot, rest = full_name.partition(".")
    return f"{package}{dot}{rest}" if root == "project" else full_name


def _match_function(
    source: Source,
    node: cst.BaseExpression,
    pattern: ast.expr,
    package: str,
    bound: dict[str, cst.BaseExpression],
) -> bool:
    """Tell whether a call is of that function; of a method, bind its instance."""
    if not (isinstance(pattern, ast.Attribute) and isinstance(pattern.value, ast.Call)):
        return source.full_name(node) == in_package(ast.unparse(pattern), package)
    if not isinstance(node, cst.Attribute) or node.attr.value != pattern.attr:
        return False
    bound[SELF] = node.value
    value = _value_of(source, node.value)
    return isinstance(value, cst.Call) and source.full_name(value.func) == ast.unparse(
        pattern.value.func
    )


def _value_of(source: Source, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return what an expression is for sure: itself, or what its name is bound to, once for all."""
    if not isinstance(node, cst.Name):
        return node
    bindings = [*source.scope(node)[node.value]]
    if len(bindings) != 1 or not isinstance(bindings[0], Assignment):
        return None
    holder = source.parent(bindings[0].node)
    if isinstance(holder, cst.AssignTarget):
        statement = source.parent(holder)
        return statement.value if isinstance(statement, cst.Assign) else None
    if isinstance(holder, cst.AsName):
        item = source.parent(holder)
        return item.item if isinstance(item, cst.WithItem) else None
    return None


def _bind(
    source: Source, node: cst.Call, pattern: ast.Call, bound: dict[str, cst.BaseExpression]
) -> bool:
    """Match the arguments of a call with those of the pattern, all of both, and record them in `bound`."""
    if any(argument.star for argument in node.args):
        return False
    by_name = {a.keyword.value: a.value for a in node.args if a.keyword}
    by_place = [a.value for a in node.args if not a.keyword]
    for i, parameter in enumerate(pattern.args):
        if i < len(by_place):
            value = by_place[i]
        elif isinstance(parameter, ast.Name) and parameter.id in by_name:
            value = by_name.pop(parameter.id)
        else:
            return False
        if not _unify(source, value, parameter, bound):
            return False
    for keyword in pattern.keywords:
        if keyword.arg not in by_name:
            return False
        if not _unify(source, by_name.pop(keyword.arg), keyword.value, bound):
            return False
    return len(by_place) <= len(pattern.args) and not by_name


def _unify(
    source: Source,
    node: cst.BaseExpression,
    pattern: ast.expr,
    bound: dict[str, cst.BaseExpression],
) -> bool:
    if isinstance(pattern, ast.Attribute):
        return (
            isinstance(node, cst.Attribute)
            and node.attr.value == pattern.attr
            and _unify(source, node.value, pattern.value, bound)
        )
    assert isinstance(pattern, ast.Name)
    bound[pattern.id] = node
    return True


def _order_is_free(bound: dict[str, cst.BaseExpression], codemod: Call) -> bool:
    """Tell whether what the arguments do happens as before: once each, and in the same order.

    Names, their attributes and constants do nothing.
    """
    before, after = (
        [
            name.id
            for name in _in_order(ast.parse(text, mode="eval").body)
            if name.id in bound and not _does_nothing(bound[name.id])
        ]
        for text in (codemod.before, codemod.after)
    )
    start = [SELF] if SELF in bound and not _does_nothing(bound[SELF]) else []
    return start + before == after


def _in_order(tree: ast.AST) -> list[ast.Name]:
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return sorted(names, key=lambda name: (name.lineno, name.col_offset))


def _does_nothing(node: cst.BaseExpression) -> bool:
    constants = cst.BaseNumber | cst.SimpleString
    return (
        isinstance(node, constants)
        or get_full_name_for_node(node) is not None
        and not any(isinstance(child, cst.Call | cst.Subscript) for child in [node, *_parts(node)])
    )


def _parts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    parts = []
    while isinstance(node, cst.Attribute):
        node = node.value
        parts.append(node)
    return parts
