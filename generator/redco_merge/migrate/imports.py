"""The imports of a user's file: how it spells a full name, and what is added and dropped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst
from libcst.metadata import ImportAssignment
from libcst.metadata.scope_provider import Scope

from redco_merge.migrate.source import AnyImport, Source

WIDTH = 100  # columns of a line, as black has it in the projects
Edit = tuple[int, int, str]  # start and end in bytes of the text, and what takes its place
Import = tuple[str, str]  # the full name, and what a file calls it


class Unproven(Exception):
    """A rewriting that could change what the file means."""


def spell(source: Source, full_name: str, node: cst.CSTNode) -> tuple[str, bool]:
    """Return (how the file says a full name where `node` is, whether an import is to be added).

    Raises Unproven where its name means something else there.
    """
    module, _, name = full_name.rpartition(".")
    top = full_name.split(".")[0]
    for bound, spelling in _names_in_reach(source, node):
        # A package has its modules once something imports them: jax does so itself.
        if bound in (full_name, module) or bound == top == "jax":
            return spelling + full_name.removeprefix(bound), False
    if name in source.identifiers:
        raise Unproven(f"{name} means something else there")
    return name, module != source.module_name


def _names_in_reach(source: Source, node: cst.CSTNode) -> list[tuple[str, str]]:
    """Return (full name, what it is called) of what imports have bound where `node` is, longest first."""
    scope = source.scope(node)
    names = []
    for outer in _scopes(scope):
        for assignment in outer.assignments:
            if isinstance(assignment, ImportAssignment) and len(scope[assignment.name]) == 1:
                full_names = assignment.get_qualified_names_for(assignment.name)
                names += [(x.name, assignment.name) for x in full_names]
    return sorted(names, key=lambda name: (-len(name[0]), name))


def _scopes(scope: Scope) -> Iterator[Scope]:
    yield scope
    if scope.parent is not scope:
        yield from _scopes(scope.parent)


def import_line(new: Import) -> str:
    """Return the import of a full name by a name."""
    module, _, last = new[0].rpartition(".")
    return f"from {module} import {last}" + (f" as {new[1]}" if new[1] != last else "")


def change_imports(
    source: Source,
    statement: cst.CSTNode,
    drop: Collection[cst.ImportAlias] = (),
    add: Sequence[Import] = (),
) -> list[Edit]:
    """Return the edits that drop names from an import statement, and import others beside it.

    What has nothing left goes. Raises Unproven where a line holds more than that, or a comment.
    """
    line = source.parent(statement)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        raise Unproven("the import shares its line")
    assert isinstance(statement, AnyImport) and not isinstance(statement.names, cst.ImportStar)
    if drop and "#" in source.code(statement):
        raise Unproven("the import has a comment")
    lines, edits = [], []
    own = [new for new in add if _takes(source, statement, new)]
    for new in (new for new in add if new not in own):
        other = _statement_that_takes(source, statement, new)
        if other is None:
            lines.append(import_line(new))
        else:
            edits.append((*source.span(other), _printed(other, [*_aliases(other), _text(new)])))
    aliases = zip(statement.names, _aliases(statement), strict=True)
    names = [name for alias, name in aliases if alias not in drop]
    names += map(_text, own)
    if names:
        changed = drop or own
        lines.insert(0, _printed(statement, names) if changed else source.code(statement))
    return [*edits, _statement_edit(source, statement, line, lines)]


def _statement_edit(
    source: Source, statement: cst.CSTNode, line: cst.SimpleStatementLine, lines: list[str]
) -> Edit:
    """Return the edit that puts lines in the place of a statement; of none, the whole line goes."""
    content = source.text.encode()
    start, end = source.span(statement)
    line_start = content[:start].rfind(b"\n") + 1
    if lines:
        indent = content[line_start:start].decode()
        return start, end, f"{source.module.default_newline}{indent}".join(lines)
    if len(getattr(source.parent(line), "body", ())) == 1 or line.trailing_whitespace.comment:
        raise Unproven("the import is all that its block holds, or has a comment")
    return line_start, content.find(b"\n", end) + 1 or len(content), ""


def _takes(source: Source, statement: cst.CSTNode, new: Import) -> bool:
    """Tell whether a statement imports from the module of that name, and can import it too."""
    return (
        isinstance(statement, cst.ImportFrom)
        and not isinstance(statement.names, cst.ImportStar)
        and source.imported_module(statement) == new[0].rpartition(".")[0]
        and "#" not in source.code(statement)
    )


def _statement_that_takes(
    source: Source, beside: cst.CSTNode, new: Import
) -> cst.ImportFrom | None:
    """Return an import at the top of the file that can import a name too, where `beside` is there."""
    top: list[cst.CSTNode] = []
    for line in source.module.body:
        if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
            statement = line.body[0]
            if isinstance(statement, AnyImport):
                top.append(statement)
                continue
        if top:
            break  # only what stands in one block with it: nothing runs in between
    if beside not in top:
        return None
    takers = (x for x in top if _takes(source, x, new))
    taker = next(takers, None)
    return taker if isinstance(taker, cst.ImportFrom) else None


def _aliases(statement: AnyImport) -> list[str]:
    assert not isinstance(statement.names, cst.ImportStar)
    blank = cst.Module([])
    bare = (alias.with_changes(comma=cst.MaybeSentinel.DEFAULT) for alias in statement.names)
    return [blank.code_for_node(alias).strip() for alias in bare]


def _text(new: Import) -> str:
    return import_line(new).partition(" import ")[2]


def _printed(statement: AnyImport, names: list[str]) -> str:
    """Return an import statement of these names, in a line or one below the other."""
    if isinstance(statement, cst.Import):
        return f"import {', '.join(names)}"
    before = _aliases(statement)
    if [x for x in names if x in before] == sorted(x for x in names if x in before):
        names = sorted(names)
    head = cst.Module([]).code_for_node(
        statement.with_changes(names=[cst.ImportAlias(cst.Name("X"))], lpar=None, rpar=None)
    )
    head = head.removesuffix("X")
    text = head + ", ".join(names)
    if len(text) <= WIDTH:
        return text
    return f"{head}(\n" + "".join(f"    {name},\n" for name in names) + ")"
