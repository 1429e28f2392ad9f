"""What was edited since the last check: digests of the symbols of a project's Python files.

Comments, layout and docstrings are no edit. Files that are as redco wrote them have no digests in .redco/check.json.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping

from redco_new.project.state import ProjectState

Digests = Mapping[str, Mapping[str, str]]  # path -> symbol -> digest
MOST = 5  # symbols that a line names
OTHERS = "(other lines)"
LETTERS = 12  # of a digest


def digests_of(content: bytes) -> dict[str, str]:
    """Return symbol -> digest of what it says: "loss", "Layer.__call__", "PARAMS"; {} of what is no Python."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return {OTHERS: hashlib.sha256(content).hexdigest()[:LETTERS]}
    says = dict[str, list[str]]()
    for name, node in _symbols(tree.body):
        says.setdefault(name, []).append(ast.dump(_without_docstring(node)))
    return {
        name: hashlib.sha256("".join(texts).encode()).hexdigest()[:LETTERS]
        for name, texts in says.items()
    }


def _symbols(body: Iterable[ast.stmt], scope: str = "") -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            members, node.body = node.body, []
            yield f"{scope}{node.name}", node
            yield from _symbols(members, f"{scope}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{scope}{node.name}", node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield "imports", node
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            names = [ast.unparse(target) for target in targets if target is not None]
            yield f"{scope}{', '.join(names) or OTHERS}", node


def _without_docstring(node: ast.stmt) -> ast.stmt:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
        node.body = node.body[1:] or [ast.Pass()]
    return node


def edited_files(state: ProjectState, imported: Iterable[str]) -> Digests:
    """Return the digests of each Python file of a project that is not as redco wrote it.

    imported: the files that it imports, relative to it, of which some may be redco's, and some outside of it.
    """
    digests = dict[str, dict[str, str]]()
    for path in sorted({*imported, *(path for path in state.records.base if path.endswith(".py"))}):
        try:
            content = (state.root / path).read_bytes()
        except OSError:
            content = b""
        if content != state.base(path):
            digests[path] = digests_of(content)
    return digests


def changed_since(state: ProjectState, before: Digests, now: Digests) -> list[str]:
    """Return path::symbol of what differs between two checks."""
    changed = list[str]()
    for path in sorted({*before, *now}):
        base = state.base(path)
        written = {} if base is None else digests_of(base)
        old, new = before.get(path, written), now.get(path, written)
        names = [name for name in {**new, **old} if old.get(name) != new.get(name)]
        changed += [f"{path}::{name}" for name in names]
    return changed


def suspects(changed: Iterable[str], about: tuple[str, ...], at: str = "") -> str:
    """Return the changed symbols in which to look for a fault, those that it is likelier in first; "" for none.

    at: a place, path::function or path:line, that was seen to be at fault.
    """
    every = [one for one in changed if not one.startswith("tests/")]

    def rank(one: str) -> tuple[bool, int]:
        places = [i for i, part in enumerate(about) if part in one.partition("::")[0]]
        return not at.startswith(one.partition("::")[0]), min(places, default=len(about))

    ranked = sorted(every, key=rank)
    more = f" and {len(ranked) - MOST} more" if len(ranked) > MOST else ""
    return ", ".join(ranked[:MOST]) + more
