"""From the files that an update changes to steps, each one call of the system."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from redco_new.errors import RedcoError
from redco_new.project.manifest import MANIFEST, sha256
from redco_new.transaction.disk import FOLDER, OTHER, look, told
from redco_new.transaction.paths import locate, parents

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

    place: relative to the project, links followed.  old, new: what lies there before and after, as
    disk.look tells it, without OTHER.
    """

    place: str
    old: str | None
    new: str | None


def locate_all(root: Path, changes: Iterable[Change]) -> dict[str, Change]:
    """{place: change}, the manifest's last. Raises RedcoError where two changes meet."""
    placed: dict[str, Change] = {}
    for change in sorted(changes, key=lambda change: change.path == MANIFEST):
        place = locate(root, change.path)
        if place in placed:
            what = f"is the same file as {placed[place].path}"
            raise RedcoError(change.path, what, "make one of them a file of its own")
        if change.content is None and os.path.islink(root / change.path):
            what = "is a link, and the update would delete the file that it leads to"
            raise RedcoError(change.path, what, "delete it yourself and run it again")
        placed[place] = change
    return placed


def plan(root: Path, placed: Mapping[str, Change]) -> list[Step]:
    """The steps in their order: deletions, folders that they empty, new folders, files.

    placed: as locate_all gives it.  A file that holds already what it would hold takes no step.
    Raises RedcoError if any file is not as expected, or may not be written to.
    """
    files = [Step(place, change.expected, _new(change)) for place, change in placed.items()]
    deleted = [step for step in files if step.new is None and step.old is not None]
    written = [step for step in files if step.new is not None]
    with told(str(root), CANNOT_READ):
        emptied = _emptied(root, deleted, written)
    for step in files:
        _check(root, step, {folder.place for folder in emptied})
    added = _added(root, deleted, written)
    return deleted + emptied + added + [step for step in written if step.old != step.new]


def _new(change: Change) -> str | None:
    return None if change.content is None else sha256(change.content)


def _check(root: Path, step: Step, emptied: set[str]) -> None:
    file = root / step.place
    with told(step.place, CANNOT_READ):
        now = look(file)
    if now in (FOLDER, OTHER) and step.place not in emptied:
        raise _blocked(step.place, "is not a file", "move it away")
    if now != step.old and step.place not in emptied:
        raise changed(step.place)
    if step.old not in (None, step.new) and not os.access(file, os.W_OK):
        raise _blocked(step.place, "is read-only", "let it be written to")


def _emptied(root: Path, deleted: list[Step], written: list[Step]) -> list[Step]:
    """The folders that hold nothing but what is deleted, the innermost first."""
    kept = {folder for step in written for folder in parents(step.place)}
    gone = {step.place for step in deleted}
    steps = []
    for folder in _folders(deleted)[::-1]:
        if folder not in kept and look(root / folder) == FOLDER:
            if gone.issuperset(f"{folder}/{name}" for name in os.listdir(root / folder)):
                gone.add(folder)
                steps.append(Step(folder, FOLDER, None))
    return steps


def _added(root: Path, deleted: list[Step], written: list[Step]) -> list[Step]:
    """The folders that files are written into and that do not exist, the outermost first."""
    gone, files = ({step.place for step in steps} for steps in (deleted, written))
    steps = []
    for folder in _folders(written):
        with told(folder, CANNOT_READ):
            now = look(root / folder)
        if folder in files or now not in (None, FOLDER) and folder not in gone:
            raise _blocked(folder, "is a file, and a folder is needed there", "move it away")
        if now != FOLDER:
            steps.append(Step(folder, None, FOLDER))
    return steps


def _folders(steps: list[Step]) -> list[str]:
    """The folders around the places of `steps`, the outermost first."""
    return sorted({folder for step in steps for folder in parents(step.place)})


def changed(place: str) -> RedcoError:
    """The error for a file that is not what it was when the update was worked out."""
    return _blocked(place, "changed while the update was worked out", "save your work")


def _blocked(place: str, what: str, todo: str) -> RedcoError:
    return RedcoError(place, f"{what}, and nothing was written", f"{todo} and run it again")
