"""From the files that an update changes to steps, each one call of the system."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from redco_new.errors import RedcoError
from redco_new.transaction.disk import FOLDER, MANIFEST, OTHER, enclosing_folders, locate
from redco_new.transaction.disk import os_errors_named, sha256, state_of

CANNOT_READ = "cannot be read: {why}, and nothing was written"


@dataclass(frozen=True)
class Change:
    """What becomes of one file.

    path: '/'-separated, relative to the project; a link is written through.
    content: what it holds afterwards, or None to delete it.
    expected: the sha256 in hex of what it holds before, or None where there must be nothing.
    executable: whether a new file may be run; one that is replaced keeps its own mode.
    """

    path: str
    content: bytes | None
    expected: str | None
    executable: bool = False


@dataclass(frozen=True)
class Step:
    """One call of the system, and what undoes it.

    path: relative to the project, links followed.
    old, new: what lies there before and after, as disk.state_of tells it, without OTHER.
    """

    path: str
    old: str | None
    new: str | None


def locate_all(root: Path, changes: Iterable[Change]) -> dict[str, Change]:
    """Return {path with links followed: change}, the manifest's last.

    Raises RedcoError where two changes are of the same file, or a link would be deleted.
    """
    located: dict[str, Change] = {}
    for change in sorted(changes, key=lambda change: change.path == MANIFEST):
        path = locate(root, change.path)
        if path in located:
            what = f"is the same file as {located[path].path}"
            raise RedcoError(change.path, what, "make one of them a file of its own")
        if change.content is None and os.path.islink(root / change.path):
            what = "is a link, and the update would delete the file that it leads to"
            raise RedcoError(change.path, what, "delete it yourself and run it again")
        located[path] = change
    return located


def plan_steps(root: Path, located: Mapping[str, Change]) -> list[Step]:
    """Return the steps in their order: deletions, folders that they empty, new folders, files.

    located: as locate_all returns it.  A file that holds already what it would hold takes no step.
    Raises RedcoError if any file is not as expected, or may not be written to.
    """
    files = [Step(path, change.expected, _new_state(change)) for path, change in located.items()]
    deletions = [step for step in files if step.new is None and step.old is not None]
    writes = [step for step in files if step.new is not None]
    with os_errors_named(str(root), CANNOT_READ):
        empty_folders = _folders_to_remove(root, deletions, writes)
    for step in files:
        _check(root, step, {folder.path for folder in empty_folders})
    new_folders = _folders_to_make(root, deletions, writes)
    return deletions + empty_folders + new_folders + [x for x in writes if x.old != x.new]


def _new_state(change: Change) -> str | None:
    return None if change.content is None else sha256(change.content)


def _check(root: Path, step: Step, empty_folders: set[str]) -> None:
    file = root / step.path
    with os_errors_named(step.path, CANNOT_READ):
        now = state_of(file)
    if now in (FOLDER, OTHER) and step.path not in empty_folders:
        raise _blocked(step.path, "is not a file", "move it away")
    if now != step.old and step.path not in empty_folders:
        raise concurrent_edit(step.path)
    if step.old not in (None, step.new) and not os.access(file, os.W_OK):
        raise _blocked(step.path, "is read-only", "let it be written to")


def _folders_to_remove(root: Path, deletions: list[Step], writes: list[Step]) -> list[Step]:
    """Return steps for the folders that hold nothing but what is deleted, the innermost first."""
    needed = {folder for step in writes for folder in enclosing_folders(step.path)}
    gone = {step.path for step in deletions}
    steps = []
    for folder in _folders(deletions)[::-1]:
        if folder not in needed and state_of(root / folder) == FOLDER:
            if gone.issuperset(f"{folder}/{name}" for name in os.listdir(root / folder)):
                gone.add(folder)
                steps.append(Step(folder, FOLDER, None))
    return steps


def _folders_to_make(root: Path, deletions: list[Step], writes: list[Step]) -> list[Step]:
    """Return steps for the folders that are written into and do not exist, the outermost first."""
    gone, files = ({step.path for step in steps} for steps in (deletions, writes))
    steps = []
    for folder in _folders(writes):
        with os_errors_named(folder, CANNOT_READ):
            now = state_of(root / folder)
        if folder in files or now not in (None, FOLDER) and folder not in gone:
            raise _blocked(folder, "is a file, and a folder is needed there", "move it away")
        if now != FOLDER:
            steps.append(Step(folder, None, FOLDER))
    return steps


def _folders(steps: list[Step]) -> list[str]:
    """Return the folders around the paths of `steps`, the outermost first."""
    return sorted({folder for step in steps for folder in enclosing_folders(step.path)})


def concurrent_edit(path: str) -> RedcoError:
    """Return the error for a file that is not what it was when the update was worked out."""
    return _blocked(path, "changed while the update was worked out", "save your work")


def _blocked(path: str, what: str, todo: str) -> RedcoError:
    return RedcoError(path, f"{what}, and nothing was written", f"{todo} and run it again")
