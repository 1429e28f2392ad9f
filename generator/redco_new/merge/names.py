"""What a statement binds, uses, and is called by."""

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


class Binding(NamedTuple):
    """One name of an import. module: "" for `import name`; bound: as which it is known here."""

    module: str
    name: str
    bound: str

    @property
    def top(self) -> str:
        """The name that the file can use: `import a.b` gives it `a`."""
        return self.bound.partition(".")[0]


def bindings(node: ast.stmt) -> list[Binding]:
    """What an import binds; nothing for any other statement."""
    match node:
        case ast.Import(names=names):
            return [Binding("", x.name, x.asname or x.name) for x in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            module = "." * level + (module or "")
            star = f"* of {module}"
            return [
                Binding(module, x.name, star if x.name == "*" else x.asname or x.name)
                for x in names
            ]
    return []


def bound(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that `nodes` bind in the scope that they stand in."""
    names = set()
    for node in scope_nodes(nodes):
        match node:
            case ast.FunctionDef(name=x) | ast.AsyncFunctionDef(name=x) | ast.ClassDef(name=x):
                names.add(x)
            case ast.Import() | ast.ImportFrom():
                names |= {binding.top for binding in bindings(node)}
            case ast.Name(id=x, ctx=ast.Store()) | ast.MatchAs(name=str(x)):
                names.add(x)
            case ast.MatchStar(name=str(x)) | ast.MatchMapping(rest=str(x)):
                names.add(x)
    return names


def scope_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes below `nodes` but the insides of definitions and lambdas."""
    for node in nodes:
        yield node
        if not isinstance(node, (*DEFINITIONS, ast.Lambda)):
            yield from scope_nodes(ast.iter_child_nodes(node))


def eager(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that must have a value when `nodes` run: not those inside functions."""
    names = set()
    for node in nodes:
        if isinstance(node, (*FUNCTIONS, ast.Lambda)):
            names |= eager(evaluated(node))
        elif isinstance(node, ast.ClassDef):
            names |= eager(ast.iter_child_nodes(node)) - bound(node.body)
        else:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                names.add(node.id)
            names |= eager(ast.iter_child_nodes(node))
    return names


def evaluated(node: ast.AST) -> list[ast.AST]:
    """The parts of a function or lambda that run when it is defined."""
    defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    if isinstance(node, ast.Lambda):
        return defaults
    args = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    args += filter(None, [node.args.vararg, node.args.kwarg])
    hints = [*(arg.annotation for arg in args), node.returns]
    return [*node.decorator_list, *defaults, *filter(None, hints)]


def title(node: ast.stmt) -> str:
    """What tells a statement from its siblings: the name it defines, or what it is about."""
    match node:
        case ast.FunctionDef(name=x) | ast.AsyncFunctionDef(name=x) | ast.ClassDef(name=x):
            return x
        case ast.Assign(targets=targets):
            return ", ".join(ast.unparse(target) for target in targets)
        case ast.AnnAssign(target=target):
            return ast.unparse(target)
        case ast.Import() | ast.ImportFrom():
            return f"import {', '.join(x.bound for x in bindings(node))}"
        case ast.AugAssign(target=target):
            return f"{ast.unparse(target)} +="
        case ast.Expr(value=ast.Call(func=func, args=args)):
            first = [ast.unparse(x) for x in args[:1] if isinstance(x, ast.Constant | ast.Name)]
            return f"{ast.unparse(func)}({', '.join(first)})"
        case ast.If(test=test) if names_main(test):
            return "__main__"
        case ast.If(test=test, orelse=[]) if is_type_checking(test):
            return "if TYPE_CHECKING"
    return other_title(node)


def other_title(node: ast.stmt) -> str:
    """For a statement without a name: its kind, and what it binds or else its first line."""
    if type(node).__name__ == "TypeAlias":  # Python 3.12
        return node.name.id
    about = ", ".join(sorted(bound([node]))) or ast.unparse(node).partition("\n")[0]
    return f"{type(node).__name__.lower()} {about}"


def names_main(test: ast.expr) -> bool:
    return ast.unparse(test) == "__name__ == '__main__'"


def is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test).rpartition(".")[2] == "TYPE_CHECKING"
