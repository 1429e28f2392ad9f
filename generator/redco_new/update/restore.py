"""`redco update --restore`: one file as redco last wrote it, where its user has deleted it."""

import shlex
from dataclasses import replace
from pathlib import Path

from redco_new.errors import RedcoError, Refusal
from redco_new.transaction import apply
from redco_new.update.changes import file_change, record_changes
from redco_new.project.state import ProjectState, path_from_here, read_project_state
from redco_new.update.run import open_project

FLAG = "--restore"
ASIDE = ".mine"  # what is put to the name of the user's own text


def restore(root: Path, path: str) -> bool:
    """Write the file `path` as redco last did where it is missing. Returns whether it was.

    path: '/'-separated, relative to the project.
    A file that the user has edited stays: Refusal says how to move it aside. Raises RedcoError if
    redco has no copy of such a file.
    """
    with open_project(root):
        state = read_project_state(root)
        content, ours = _copy(state, path), state.ours(path)
        if ours == content:
            return False
        if ours is not None:
            here = path_from_here(root, path)
            move = f"mv {shlex.quote(here)} {shlex.quote(here + ASIDE)}"
            what = "is not as redco wrote it, and nothing was written over it"
            raise Refusal(here, what, f"move it aside ({move}), and run it again")
        pending = tuple(change for change in state.manifest.pending if change.path != path)
        manifest = replace(state.manifest, pending=pending)  # what was pending is in the copy
        apply(root, [file_change(path, None, content), *record_changes(state, manifest)])
    return True


def _copy(state: ProjectState, path: str) -> bytes:
    """Return what redco last wrote to `path`. Raises RedcoError if it has no copy."""
    if path in state.manifest.ejected_paths:
        what = f"{path} is yours since you ejected it, and redco has no copy of it"
        raise RedcoError(FLAG, what, "bring it back from git, or from a copy of your own")
    if path not in state.manifest.files:
        todo = "give the path of one file of .redco/manifest.json"
        raise RedcoError(FLAG, f"redco did not write {path}", todo)
    return state.records.base[path]
