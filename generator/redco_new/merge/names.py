"""Names: what a statement binds, needs, and is called by; what a whole file uses."""

import ast
import builtins
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from redco_new.merge.trees import children_of, nodes_of, scopes_of, tree_of

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
            inside += children_of(node)
    return inside


def eager_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that must have a value when `nodes` run: not those inside functions."""
    names = set()
    for node in nodes:
        if isinstance(node, (*FUNCTIONS, ast.Lambda)):
            names |= eager_names(_run_at_definition(node))
        elif isinstance(node, ast.ClassDef):
            names |= eager_names(children_of(node)) - bound_names(node.body)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                names.add(node.id)
        elif children := children_of(node):
            names |= eager_names(children)
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
        case ast.If(test=test, orelse=[]) if _is_type_checking(test):
            return "if TYPE_CHECKING"
    return _nameless_title(node)


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test).rpartition(".")[2] == "TYPE_CHECKING"


def _nameless_title(node: ast.stmt) -> str:
    """Return the kind of a statement, and what it binds or else its first line."""
    if isinstance(name := getattr(node, "name", None), ast.Name):  # `type X = ...` of Python 3.12
        return name.id
    about = ", ".join(sorted(bound_names([node]))) or ast.unparse(node).partition("\n")[0]
    return f"{type(node).__name__.lower()} {about}"


def unbound_names(text: str) -> set[str]:
    """Return the names that a file uses or exports, and nothing in it binds. Raises SyntaxError."""
    used, bound = _exported_names(text), set(_PREDEFINED)
    tables = scopes_of(text)
    for table in tables:
        for symbol in table.get_symbols():
            if table is tables[0] or symbol.is_global():
                if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
                    bound.add(symbol.get_name())
                if symbol.is_referenced():
                    used.add(symbol.get_name())
    return set() if _has_star(text) else used - bound


def _has_star(text: str) -> bool:
    """Return whether a file imports all of a module: its names cannot be told."""
    return any(
        isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in nodes_of(text)
    )


def _exported_names(text: str) -> set[str]:
    """Return the names in `__all__`."""
    lists = [
        node.value
        for node in tree_of(text).body
        if isinstance(node, ast.Assign | ast.AugAssign) and "__all__" in bound_names([node])
    ]
    nodes = [node for value in lists for node in ast.walk(value)]
    return {x.value for x in nodes if isinstance(x, ast.Constant) and isinstance(x.value, str)}


def used_before_defined(text: str) -> set[str]:
    """Return the names that a statement of a file needs when it runs, bound by a later one only."""
    early, bound = set(), set()
    statements = tree_of(text).body
    whole = bound_names(statements)
    for node in statements:
        bound |= bound_names([node])
        early |= (eager_names([node]) & whole) - bound
    return early


def attribute_uses(text: str) -> Counter[str]:
    """Return how often a file reads each attribute, or passes a keyword of that name."""
    uses: Counter[str] = Counter()
    for node in nodes_of(text):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            uses[node.attr] += 1
        elif isinstance(node, ast.keyword) and node.arg:
            uses[node.arg] += 1
    return uses


def defined_attributes(text: str) -> set[str]:
    """Return the attributes that a file gives to its own classes: members, and what is assigned."""
    names = set()
    for node in nodes_of(text):
        if isinstance(node, ast.ClassDef):
            names |= bound_names(node.body)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


def identifiers(node: ast.AST) -> set[str]:
    """Return all plain names below a node."""
    return {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}
