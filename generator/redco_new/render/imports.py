"""Imports of printed Python: a template has all that it may need, and what a file does not use is not printed."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from redco_new.render.values import LINE

NAMES = r"\([^)#]*\)|[\w, ]+"  # of an import, without comments


@lru_cache(1024)  # an update prints what was and what is
def drop_unused_imports(text: str) -> str:
    """Return Python without the names that it imports at its top and does not use.

    One that says `noqa: F401` stays. What is no Python is returned as it is.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    used, before = _names(tree), text.splitlines()
    lines: list[str | None] = [*before]
    for node in tree.body:
        if not isinstance(node, ast.Import | ast.ImportFrom) or _has_effects(node, lines):
            continue
        names = [name for name in node.names if _bound(name) in used]
        if names != node.names:
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            node.names = names
            lines[first:last] = [ast.unparse(node) if names else None, *[None] * (last - first - 1)]
    return text if lines == before else "\n".join(_without_empty_blocks(lines)) + "\n"


def _has_effects(node: ast.Import | ast.ImportFrom, lines: list[str | None]) -> bool:
    """Return whether an import is one of the language's, or says that it is there for what it does."""
    line = lines[(node.end_lineno or node.lineno) - 1] or ""
    return "noqa: F401" in line or (
        isinstance(node, ast.ImportFrom) and node.module == "__future__"
    )


def _bound(name: ast.alias) -> str:
    """Return the name that an import gives to a module."""
    return name.asname or name.name.partition(".")[0]


def _names(tree: ast.Module) -> set[str]:
    """Return the names that a file reads, those of quoted annotations too."""
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    notes = (getattr(x, part, None) for x in ast.walk(tree) for part in ("annotation", "returns"))
    quoted = (x for note in notes if note for x in ast.walk(note) if isinstance(x, ast.Constant))
    words = {word for text in quoted for word in re.findall(r"\w+", str(text.value))}
    return words | {name.id for name in names if isinstance(name.ctx, ast.Load)}


def _without_empty_blocks(lines: list[str | None]) -> list[str]:
    """Return lines without those that are None, and without the blank one after a block of these alone."""
    rest: list[str] = []
    for before, line in zip([None, *lines], lines, strict=False):
        empty = line == "" and before is None and (not rest or rest[-1] == "")
        if line is not None and not empty:
            rest.append(line)
    return rest


def sort_imports(text: str, package: str) -> str:
    """Return Python with its blocks of imports from the project's package in isort's order, in black's layout."""
    module = rf"{package}(?:\.\w+)*"
    line = rf"from {module} import (?:{NAMES})"
    return re.sub(
        rf"(?m)^( *){line}(?:\n\1{line})*$",
        lambda block: _sorted(block[1], re.findall(rf"from ({module}) import ({NAMES})", block[0])),
        text,
    )


def _sorted(margin: str, imports: list[tuple[str, str]]) -> str:
    """Return the lines of a block of imports from one package: (module, names), those of one module as one."""
    names: dict[str, list[str]] = {}
    for module, text in imports:
        names.setdefault(module, []).extend(re.findall(r"\w+(?: as \w+)?", text))
    stacked = {module for module, text in imports if text.endswith(",\n" + margin + ")")}
    lines = []
    for module in sorted(names):
        words = sorted(names[module], key=_kind)
        line = f"{margin}from {module} import {', '.join(words)}"
        if module in stacked or len(line) > LINE:
            inner = "".join(f"{margin}    {word},\n" for word in words)
            line = f"{margin}from {module} import (\n{inner}{margin})"
        lines.append(line)
    return "\n".join(lines)


def _kind(word: str) -> tuple[int, str]:
    """Return what isort sorts a name by: constants, classes, the rest."""
    name = word.partition(" ")[0]
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2), name
