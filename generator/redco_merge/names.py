"""Names: what a statement binds, needs, and is called by; what a whole file uses."""

import ast
import builtins
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from redco_merge.limit import names_of_file, nodes_of, remember, tree_of

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
_SCOPES = (*DEFINITIONS, ast.Lambda)

# What Python itself defines in any module.
_PREDEFINED = {*dir(builtins), "__file__", "__name__", "__doc__", "__path__", "__annotations__"}


class Binding(NamedTuple):
    """One name of an import.

    module: "" for `import name`.
    name: in that module.
    alias: by which the file refers to it.
    """

    module: str
    name: str
    alias: str

    @property
    def top(self) -> str:
        """The name that the file can use: `import a.b` gives it `a`."""
        return self.alias.partition(".")[0]


def import_bindings(node: ast.stmt) -> list[Binding]:
    """Return what an import binds; nothing for any other statement."""
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


def bound_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that `nodes` bind in the scope that they stand in."""
    names = set()
    for node in _scope_nodes(nodes):
        match node:
            case ast.FunctionDef(name=x) | ast.AsyncFunctionDef(name=x) | ast.ClassDef(name=x):
                names.add(x)
            case ast.Import() | ast.ImportFrom():
                names |= {binding.top for binding in import_bindings(node)}
            case ast.Name(id=x, ctx=ast.Store()) | ast.MatchAs(name=str(x)):
                names.add(x)
            case ast.MatchStar(name=str(x)) | ast.MatchMapping(rest=str(x)):
                names.add(x)
    return names


def _scope_nodes(nodes: Iterable[ast.AST]) -> list[ast.AST]:
    """Return all nodes below `nodes` but the insides of definitions and lambdas."""
    inside = list(nodes)
    for node in inside:  # which grows
        if not isinstance(node, _SCOPES):
            inside += ast.iter_child_nodes(node)
    return inside


def eager_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that must have a value when `nodes` run: not those inside functions."""
    names = set()
    for node in nodes:
        if isinstance(node, (*FUNCTIONS, ast.Lambda)):
            names |= eager_names(_run_at_definition(node))
        elif isinstance(node, ast.ClassDef):
            names |= eager_names(ast.iter_child_nodes(node)) - bound_names(node.body)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                names.add(node.id)
        else:
            names |= eager_names(ast.iter_child_nodes(node))
    return names


def _run_at_definition(node: Function | ast.Lambda) -> list[ast.expr]:
    """Return the parts of a function or lambda that run when it is defined."""
    defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    if isinstance(node, ast.Lambda):
        return defaults
    args = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    args += filter(None, [node.args.vararg, node.args.kwarg])
    hints = [*(arg.annotation for arg in args), node.returns]
    return [*node.decorator_list, *defaults, *filter(None, hints)]


def statement_title(node: ast.stmt) -> str:
    """Return what tells a statement from its siblings: the name it defines, or what it is about."""
    match node:
        case ast.FunctionDef(name=x) | ast.AsyncFunctionDef(name=x) | ast.ClassDef(name=x):
            return x
        case ast.Assign(targets=targets):
            return ", ".join(ast.unparse(target) for target in targets)
        case ast.AnnAssign(target=target):
            return ast.unparse(target)
        case ast.Import() | ast.ImportFrom():
            return f"import {', '.join(x.alias for x in import_bindings(node))}"
        case ast.AugAssign(target=target):
            return f"{ast.unparse(target)} +="
        case ast.Expr(value=ast.Call(func=func, args=args)):
            first = [ast.unparse(x) for x in args[:1] if isinstance(x, ast.Constant | ast.Name)]
            return f"{ast.unparse(func)}({', '.join(first)})"
        case ast.If(test=test) if ast.unparse(test) == "__name__ == '__main__'":
            return "__main__"
    return _nameless_title(node)


def _nameless_title(node: ast.stmt) -> str:
    """Return the kind of a statement, and what it binds or else its first line."""
    if isinstance(name := getattr(node, "name", None), ast.Name):  # `type X = ...` of Python 3.12
        return name.id
    about = ", ".join(sorted(bound_names([node]))) or ast.unparse(node).partition("\n")[0]
    return f"{type(node).__name__.lower()} {about}"


@remember
def unbound_names(text: str) -> set[str]:
    """Return the names that a file uses or exports, and nothing in it binds. Raises SyntaxError.

    There are none where it imports all of a module: these names cannot be told.
    """
    if any(isinstance(x, ast.ImportFrom) and x.names[0].name == "*" for x in nodes_of(text)):
        return set()
    used, bound = names_of_file(text)
    return (used | _exported_names(tree_of(text).body)) - bound - _PREDEFINED


def _exported_names(statements: list[ast.stmt]) -> set[str]:
    """Return the names in `__all__`."""
    lists = [
        node.value
        for node in statements
        if isinstance(node, ast.Assign | ast.AugAssign) and "__all__" in bound_names([node])
    ]
    nodes = [node for value in lists for node in ast.walk(value)]
    return {x.value for x in nodes if isinstance(x, ast.Constant) and isinstance(x.value, str)}


@remember
def used_before_defined(text: str) -> set[str]:
    """Return the names that a statement of a file needs when it runs, bound by a later one only. Raises SyntaxError."""
    early, above = set[str](), set[str]()
    statements = tree_of(text).body
    whole = bound_names(statements)
    for node in statements:
        above |= bound_names([node])
        early |= (eager_names([node]) & whole) - above
    return early


@remember
def attribute_uses(text: str) -> Counter[str]:
    """Return how often a file reads each attribute, or passes a keyword of that name."""
    uses: Counter[str] = Counter()
    for node in nodes_of(text):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Load()) | ast.keyword(arg=str(name)):
                uses[name] += 1
    return uses


@remember
def unset_attributes(text: str) -> set[str]:
    """Return the attributes that a file reads, and gives to none of its classes and objects."""
    defined = set[str]()
    for node in nodes_of(text):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store()):
                defined.add(name)
            case ast.ClassDef(body=body):
                defined |= bound_names(body)
    return attribute_uses(text).keys() - defined
