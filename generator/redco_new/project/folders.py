"""The folders of a checkpoint and of a tokenizer that a project's config.py names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from redco_new.project.state import ProjectState
from redco_new.request import is_folder
from redco_new.request.names import package_name

TODO = "bring it back, or name another in config.py"


def missing_folders(state: ProjectState) -> Iterator[tuple[str, str]]:
    """Yield (where, what) of each that is gone: a relative one is from the project's folder."""
    path = f"{package_name(state.manifest.request['name'])}/config.py"
    try:
        tree = ast.parse(state.ours(path) or b"")
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        name = ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])
        for part in ast.walk(node.value) if name in ("CHECKPOINT", "tokenizer") else ():
            folder = part.value if isinstance(part, ast.Constant) else ""
            if isinstance(folder, str) and is_folder(folder):
                if not (state.root / folder).expanduser().is_dir():
                    yield f"{path}::{name}", f"{folder}: there is no such folder"
