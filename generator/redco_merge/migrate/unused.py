"""Imports that a rewriting has left without a use."""

from __future__ import annotations

import ast

from redco_merge.migrate.codemods import Call, Rename
from redco_merge.migrate.imports import Unproven, change_imports
from redco_merge.migrate.source import Source


def drop_unused(before: Source, after: Source, codemod: Rename | Call) -> str:
    """Return the text after a rewriting without the import of what it was about, if nothing uses it now.

    What had no use before stays: another file may import it from there.
    """
    old = _function(codemod)
    for statement, alias, full_name in after.imports():
        bound = alias.evaluated_alias or alias.evaluated_name
        if full_name != old and full_name != old.rpartition(".")[0] or bound in after.strings:
            continue
        if not before.count_uses(bound) or after.count_uses(bound):
            continue
        try:
            edits = change_imports(after, statement, [alias])
        except Unproven:
            continue
        ((start, end, text),) = edits
        content = after.text.encode()
        return (content[:start] + text.encode() + content[end:]).decode()
    return after.text


def _function(codemod: Rename | Call) -> str:
    """Return the full name of the function that a codemod is about."""
    if isinstance(codemod, Rename):
        return codemod.before
    call = ast.parse(codemod.before, mode="eval").body
    assert isinstance(call, ast.Call)
    return ast.unparse(call.func)
