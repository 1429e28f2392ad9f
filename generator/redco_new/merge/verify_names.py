"""The names that a file uses, read for the verifier alone."""

import ast
import builtins


def code_names(text: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(text)))
    return {x.id for x in nodes if isinstance(x, ast.Name)} | {
        x.name for x in nodes if isinstance(x, ast.FunctionDef | ast.ClassDef)
    }


def names_in(text: str) -> set[str]:
    """The names that a file uses, and those that it exports."""
    nodes = list(ast.walk(ast.parse(text)))
    exports = [x for node in nodes for x in exported(node)]
    return {*exports, *(node.id for node in nodes if isinstance(node, ast.Name))}


def exported(node: ast.AST) -> list[str]:
    match node:
        case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() | ast.Tuple()):
            return [x.value for x in node.value.elts if isinstance(x, ast.Constant)]
    return []


def undefined(text: str) -> set[str]:
    """The names that are used and bound nowhere in the file, in any scope."""
    used, known = set(), set(dir(builtins))
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used.add(name)
            case ast.alias(name=name, asname=bound):
                known.add(bound or name.partition(".")[0])
            case ast.Name(id=name) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                known.add(name)
            case ast.Assign():
                used |= set(exported(node))
            case _:
                known.add(getattr(node, "name", None))
    return set() if "*" in known else used - known
