"""What an update does to the specs of sharding.py, parameter by parameter."""

import ast
from collections.abc import Iterator

TABLES = ("AXES", "PARAMS", "ACTIVATIONS", "MOMENTS")
SHOWN = 20


def changed_specs(before: bytes, after: bytes) -> list[str]:
    """Lines such as "+ layers/mlp/up/kernel P(None, 'model')"; the first SHOWN, and how many more."""
    old, new = tables(before), tables(after)
    found = [line for name in TABLES for line in lines(old.get(name, {}), new.get(name, {}))]
    more = [f"... and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return found[:SHOWN] + more


def lines(old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    for path in [*new, *(path for path in old if path not in new)]:
        if path not in old:
            yield f"+ {path} {new[path]}"
        elif path not in new:
            yield f"- {path} {old[path]}"
        elif old[path] != new[path]:
            yield f"~ {path} {old[path]} -> {new[path]}"


def tables(content: bytes) -> dict[str, dict[str, str]]:
    """The tables of a sharding.py, as text; none of one that is not Python."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return {}
    return {
        node.targets[0].id: {
            ast.literal_eval(key): ast.unparse(value)
            for key, value in zip(node.value.keys, node.value.values, strict=True)
            if isinstance(key, ast.Constant)
        }
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Dict)
    }
