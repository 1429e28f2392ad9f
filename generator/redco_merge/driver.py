"""The merge as a driver of git: gitattributes(5), "Defining a custom merge driver"."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from redco_merge.documents import merge_document
from redco_merge.python import merge


def merge_files(
    base: Path, ours: Path, theirs: Path, path: str, show: Callable[[str], None]
) -> bool:
    """Merge three files, as git gives them to a driver, and write the result to `ours`.

    path: the file's name in the repository, which says its kind.
    show: is told why the two sides are in conflict, a line for each place.
    Returns whether they merge. Where they do not, `ours` holds what git itself makes of them, with its markers, so that
    both sides are seen. Raises OSError where a file cannot be read or written, and where git cannot merge (a binary file).
    """
    b, o, t = (file.read_bytes() for file in (base, ours, theirs))
    python = path.endswith(".py")
    merged = merge(b, o, t, owned=()) if python else merge_document(path, b, o, t)
    if not merged.conflicts:
        ours.write_bytes(merged.content)
        return True
    for conflict in merged.conflicts:
        show(f"{path}: {conflict.symbol}: {conflict.reason}")
    command = ["git", "merge-file", "--stdout", "-L", "ours", "-L", "base", "-L", "theirs"]
    marked = subprocess.run([*command, ours, base, theirs], capture_output=True)
    if marked.returncode >= 128:  # an error, and no count of conflicts
        raise OSError(0, " ".join(marked.stderr.decode(errors="replace").split()), path)
    ours.write_bytes(marked.stdout)
    return False
