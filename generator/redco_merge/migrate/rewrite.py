"""One rewriting of a user's file by one codemod, with the imports that it needs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst
from libcst.helpers import get_full_name_for_node

from redco_merge.migrate.codemods import Call, Rename
from redco_merge.migrate.imports import (
    WIDTH,
    Edit,
    Unproven,
    change_imports,
    spell,
)
from redco_merge.migrate.match import Match, in_package, match_call
from redco_merge.migrate.source import Source

Rewriting = tuple[str, str]  # the new text, and what was done, for people


def renamings(source: Source, codemod: Rename) -> Iterator[Rewriting]:
    """Yield the ways to take one import, or one chain of names, to the new name of what it means."""
    for statement, alias, full_name in source.imports():
        if full_name == codemod.before and isinstance(statement, cst.ImportFrom):
            try:
                yield _rename_import(source, codemod, statement, alias)
            except Unproven:
                continue
    for node in source.references(codemod.before):
        if isinstance(node, cst.Attribute):
            try:
                yield _replace(source, node, codemod.after, source.code(node))
            except Unproven:
                continue


def _rename_import(
    source: Source, codemod: Rename, statement: cst.ImportFrom, alias: cst.ImportAlias
) -> Rewriting:
    """Import the new name; as the old one where that one is not free, or is meant by more than code."""
    old, new = (name.rpartition(".")[2] for name in (codemod.before, codemod.after))
    bound = alias.evaluated_alias or old
    uses = [node for node in source.nodes if isinstance(node, cst.Name) and node.value == bound]
    uses = [node for node in uses if source.could_be(node, codemod.before)]
    sure = all(source.full_name(node) == codemod.before and source.is_read(node) for node in uses)
    free = new not in source.identifiers or _imported_as(source, codemod.after, new)
    renamed = alias.asname is None and sure and free and old not in source.strings
    name = new if renamed else bound
    already = renamed and _imported_as(source, codemod.after, new) and _is_global(source, statement)
    added = [] if already else [(codemod.after, name)]
    edits = change_imports(source, statement, [alias], added)
    edits += [(*source.span(node), name) for node in uses] if name != bound else []
    said = f"{bound} -> {name}" if name != bound else name
    return _edited(source, edits), f"{said}, of {codemod.after}"


def _imported_as(source: Source, full_name: str, name: str) -> bool:
    """Tell whether a name is that, throughout the file: one import at its top, and nothing else."""
    bindings = [*source.scope(source.module)[name]]
    imports = [x for x in source.imports() if (x[1].evaluated_alias or x[1].evaluated_name) == name]
    others = (scope for scope in {source.scope(node) for node in source.nodes} if name in scope)
    return (
        len(imports) == 1
        and imports[0][2] == full_name
        and len(bindings) == 1
        and all(set(scope[name]) == set(bindings) for scope in others)
    )


def _is_global(source: Source, statement: cst.CSTNode) -> bool:
    return source.parent(source.parent(statement)) is source.module


def rewritings(source: Source, codemod: Call, package: str) -> Iterator[Rewriting]:
    """Yield the ways to write one call of the file as the codemod has it."""
    for node in source.nodes:
        if not isinstance(node, cst.Call):
            continue
        match = match_call(source, node, codemod, package)
        try:
            if match is not None:
                yield _rewrite_call(source, match, codemod, package)
        except Unproven:
            continue


def _rewrite_call(source: Source, match: Match, codemod: Call, package: str) -> Rewriting:
    """Print what takes the place of a call, and import what that needs."""
    tree = ast.parse(codemod.after, mode="eval").body
    needs: list[str] = []
    printed = ast.unparse(_Spelling(source, match, package, needs).visit(tree))
    for name, node in match.arguments.items():
        whole = _as_operand(source, node, is_operand=f"{_mark(name)}." in printed)
        printed = printed.replace(_mark(name), whole)
    start, _ = source.span(match.node)
    column = start - (source.text.encode().rfind(b"\n", 0, start) + 1)
    if column + len(printed) > WIDTH:
        printed = _over_lines(printed, source, match.node)
    edits: list[Edit] = [(*source.span(match.node), printed)]
    if needs:
        edits += _import(source, match.node, needs)
    return _edited(source, edits), f"{_in_line(source.code(match.node))} -> {_in_line(printed)}"


class _Spelling(ast.NodeTransformer):
    """Puts marks in the place of arguments, and the file's own spelling in that of full names."""

    def __init__(self, source: Source, match: Match, package: str, needs: list[str]) -> None:
        self.source, self.match, self.package, self.needs = source, match, package, needs

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        chain = ast.unparse(node)
        if chain.partition(".")[0] in self.match.arguments or not isinstance(node, ast.Attribute):
            return self.generic_visit(node)
        if any(isinstance(part, ast.Call) for part in ast.walk(node)):
            return self.generic_visit(node)
        full_name = in_package(chain, self.package)
        text, needs_import = spell(self.source, full_name, self.match.node)
        if needs_import:
            self.needs.append(full_name)
        return ast.parse(text, mode="eval").body

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(_mark(node.id), ast.Load()) if node.id in self.match.arguments else node


def _mark(name: str) -> str:
    return f"_REDCO_{name}_ARGUMENT_"


def _as_operand(source: Source, node: cst.BaseExpression, is_operand: bool) -> str:
    """Return the text of an argument, in parentheses where it would be read otherwise.

    is_operand: an attribute of it is read.
    """
    text, whole = source.code(node), cst.Name | cst.Attribute | cst.Call | cst.Subscript
    bare = isinstance(node, whole) if is_operand else not isinstance(node, cst.NamedExpr)
    return text if bare and not node.lpar else f"({text})"


def _over_lines(printed: str, source: Source, node: cst.CSTNode) -> str:
    """Return a call with an argument a line, each as it is."""
    call = ast.parse(printed, mode="eval").body
    if not isinstance(call, ast.Call):
        return printed
    line = source.text.splitlines()[source.line(node) - 1]
    indent = line[: len(line) - len(line.lstrip())]
    pieces = [*call.args, *call.keywords]
    texts = [ast.get_source_segment(printed, piece) for piece in pieces]
    function = ast.get_source_segment(printed, call.func)
    newline = source.module.default_newline
    inner = "".join(f"{newline}{indent}    {text}," for text in texts)
    return f"{function}({inner}{newline}{indent})"


def _replace(source: Source, node: cst.Attribute, full_name: str, what: str) -> Rewriting:
    """Turn a chain of names into another full name, in the file's own spelling."""
    text, needs_import = spell(source, full_name, node)
    edits: list[Edit] = [(*source.span(node), text)]
    if needs_import:
        edits += _import(source, node, [full_name])
    return _edited(source, edits), f"{what} -> {text}"


def _import(source: Source, node: cst.CSTNode, full_names: list[str]) -> list[Edit]:
    """Return the edits that import names beside what `node` is read by now."""
    chain = node.func if isinstance(node, cst.Call) else node
    while not isinstance(chain, cst.Name) and get_full_name_for_node(chain) is None:
        chain = chain.value  # type: ignore[attr-defined]
    beside = source.import_of(chain)  # type: ignore[arg-type]
    if beside is None:
        raise Unproven("it is not imported in one place")
    new = [(full_name, full_name.rpartition(".")[2]) for full_name in full_names]
    return change_imports(source, beside, add=new)


def _in_line(text: str) -> str:
    return " ".join(text.split())


def _edited(source: Source, edits: list[Edit]) -> str:
    content = source.text.encode()
    for start, end, text in sorted(edits, reverse=True):
        content = content[:start] + text.encode() + content[end:]
    return content.decode()
