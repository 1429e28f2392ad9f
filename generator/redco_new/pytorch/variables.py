"""Variables of a printed body: what they are called, and until when each is read."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from redco_new.pytorch.expressions import fill_statement, parse, sequence, show
from redco_new.pytorch.merge import WRITES, Node
from redco_new.pytorch.sizes import Number

# What values are called that no statement of the author assigns.
PLAIN_NAMES = {
    "cat": "joined",
    "concat": "joined",
    "concatenate": "joined",
    "mul": "product",
    "add": "total",
}
# What makes another shape of a value, which is called as before.
SHAPES = {"unsqueeze", "squeeze", "transpose", "view", "reshape", "expand", "permute", "_to_copy"}
TAKEN = {
    "attention",
    "avg_pool",
    "max_pool",
    "over_layers",
    "run",
    "jax",
    "jnp",
    "nnx",
    "self",
    "config",
    "rngs",
    "functools",
    "dataclasses",
    "math",
}


class Rename(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """Return a name, by its new one where it has one."""
        return ast.Name(self._names.get(node.id, node.id), node.ctx)


def unpack_shape(name: str, row: list[str]) -> ast.stmt:
    """Return `B, S, _ = x.shape`, or what is shorter for few of many dims."""
    named = [i for i, x in enumerate(row) if x != "_"]
    if len(named) == 1:
        return assign(name_node(row[named[0]]), parse(f"{name}.shape[{named[0]}]"))
    if named == list(range(len(named))) and len(named) < len(row) - 1:
        target = sequence([name_node(x) for x in row[: len(named)]])
        return assign(target, parse(f"{name}.shape[:{len(named)}]"))
    return assign(sequence([name_node(x) for x in row]), parse(f"{name}.shape"))


def within(statements: Sequence[ast.stmt], name: str) -> list[ast.stmt]:
    """Return statements that read the dims of an array as its shape has them: where no line can unpack these before."""
    dims: dict[str, ast.expr] = {}
    rest = []
    for statement in statements:
        value = statement.value if isinstance(statement, ast.Assign) else None
        if value is None or not show(value).startswith(f"{name}.shape"):
            rest.append(statement)
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(target, ast.Name):
            dims[target.id] = value
        for i, x in enumerate(target.elts if isinstance(target, ast.Tuple) else ()):
            dims[show(x)] = parse(f"{name}.shape[{i}]")
    return [fill_statement(statement, dims) for statement in rest]


def in_one(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return statements of which each but the last assigns a variable for the next, as the last alone."""
    *first, last = statements
    for one in reversed(first):
        if not (isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)):
            return [*statements]
        last = fill_statement(last, {one.targets[0].id: one.value})
    return [last]


def reads(statements: Sequence[ast.stmt], name: str) -> bool:
    """Return whether statements read a variable."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    return any(isinstance(node, ast.Name) and node.id == name for node in nodes)


def without_unread(statements: Sequence[ast.stmt], names: Collection[str]) -> list[ast.stmt]:
    """Return statements without those that assign one of some names which no other statement reads: as a slice of all would have read one."""
    rest: list[ast.stmt] = []
    for i, one in enumerate(statements):
        target = show(one.targets[0]) if isinstance(one, ast.Assign) else ""
        if target not in names or reads(statements[i + 1 :], target):
            rest.append(one)
    return rest


def last_uses(nodes: Sequence[Node]) -> dict[Node, int]:
    """Return the place of the last step that may read each value, itself or within an expression."""
    place = {node: i for i, node in enumerate(nodes)}
    last: dict[Node, int] = {}
    for node in reversed(nodes):
        reads = [last[user] if may_be_inner(user) else place[user] for user in node.users]
        last[node] = max(reads, default=place[node])
    return last


def may_be_inner(node: Node) -> bool:
    """Return whether a value is printed where it is read: once, and by the statement that it is of."""
    if node.kind == "item" or len(node.users) != 1 or node.target == WRITES:
        return node.kind == "item"
    user = node.users[0]
    if node.kind == user.kind == "module" and _list_of(node) == _list_of(user) != "":
        return False  # the layers of a list stand one below the other
    return not node.statement.names or node.statement == user.statement or user.kind == "item"


def _list_of(node: Node) -> str:
    """Return the path of the list that a part is in; "" for one that is in none."""
    path, _, name = node.target.rpartition(".")
    return path if name.isdigit() else ""


def count_values(expression: ast.expr, least: int) -> int:
    """Return how many values an expression gives, where it says so."""
    if isinstance(expression, ast.Tuple):
        return len(expression.elts)
    if isinstance(expression, ast.Call) and show(expression.func) == "jnp.split":
        parts = expression.args[1]
        if isinstance(parts, ast.Constant) and isinstance(parts.value, int):
            return max(least, parts.value)
        if isinstance(parts, ast.Tuple | ast.List):
            return len(parts.elts) + 1
    return least


def hint_of(node: Node, otherwise: str = "") -> str:
    """Return what a value is called: as its author does, or by what gives it."""
    if len(node.statement.names) == 1:
        return node.statement.names[0]
    if len(node.statement.names) > 1 and node.kind == "operation":
        if name := _of_several(node):
            return name
    if otherwise:
        return otherwise
    if (
        node.kind == "module"
        and node.statement.names
        and not any(user.kind == "item" for user in node.users)
    ):
        return node.statement.names[0]  # the others are None, as weights of attention
    if node.kind in ("module", "layers"):
        return next((x for x in reversed(node.target.split(".")) if not x.isdigit()), "x")
    name = re.sub(r"\W|^_+", "", str(node.target).partition(".")[0])
    return PLAIN_NAMES.get(name, name) or "x"


def _of_several(node: Node) -> str:
    """Return the name of the last of what a statement of several names computes, by their order."""
    readers = [user for user in node.users if user.statement != node.statement]
    return "" if not readers else node.statement.names[0]


def safe_name(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) or name in TAKEN else name


def name_node(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def assign(target: ast.expr, value: ast.expr) -> ast.stmt:
    return ast.Assign([target], value, lineno=0)


def attributes_in(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the attributes of self that statements read."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id == "self":
                    yield node.attr


def names_of_several(nodes: Sequence[Node]) -> dict[Node, str]:
    """Return what values are called that one statement of the author assigns to several names, in their order."""
    groups: dict[Any, list[Node]] = {}
    for node in nodes:
        read = any(user.statement != node.statement for user in node.users)
        if _is_one(node) and len(node.statement.names) > 1 and read:
            groups.setdefault(node.statement, []).append(node)
    return {
        node: name
        for statement, group in groups.items()
        if len(group) == len(statement.names)
        for node, name in zip(group, statement.names, strict=True)
    }


def _is_one(node: Node) -> bool:
    """Return whether a step gives one value."""
    several = any(user.kind == "item" for user in node.users)
    return node.kind == "operation" or node.kind == "module" and not several


def return_last(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements that return their last value by its expression, and not by its name."""
    if len(statements) < 2:
        return statements
    *before, final, end = statements
    name = final.targets[0] if isinstance(final, ast.Assign) else None
    if isinstance(end, ast.Return) and isinstance(name, ast.Name) and end.value is not None:
        if show(end.value) == name.id and isinstance(final, ast.Assign):
            return [*before, ast.Return(final.value)]
    return statements


def is_neutral(name: str, node: Node) -> bool:
    """Return whether a step changes nothing: + 0, or * 1."""
    one = {"add": 0, "sub": 0, "mul": 1, "div": 1}.get(name)
    x, other = node.arguments.get("self"), node.arguments.get("other")
    if one is None or not isinstance(other, Number) or not isinstance(x, Node):
        return False
    return set(other.values) == {one} and x.dtype == node.dtype
