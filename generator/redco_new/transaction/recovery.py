"""Undoing a transaction that was not committed."""

import os
from pathlib import Path

from redco_new.transaction import journal
from redco_new.transaction.disk import FOLDER, look, sync, told
from redco_new.transaction.journal import old_copy, staging_folder
from redco_new.transaction.paths import check_project
from redco_new.transaction.plan import Step

CANNOT = "an interrupted update of it cannot be undone: {why}"


def recover(root: Path) -> list[str]:
    """Undo the transaction that a killed process left on `root`, if any; the caller has the lock.

    Killed itself, it is run again.  Returns the places that are not as they were before, because
    they were changed by hand since: those it leaves as they are.
    Raises RedcoError if the journal cannot be followed, or the disk does not let it.
    """
    check_project(root)
    kept: list[str] = []
    if not os.path.lexists(staging_folder(root)):
        return kept
    with told(str(root), CANNOT):
        if journal.unfinished(root):
            kept = _undo(root, journal.read(root))
            journal.remove(root)
        journal.clear(root)
    return kept


def _undo(root: Path, steps: list[Step]) -> list[str]:
    for number, step in reversed(list(enumerate(steps))):
        with told(step.place, CANNOT):
            _undo_step(root, number, step)
    for folder in {(root / step.place).parent for step in steps}:
        if folder.is_dir():
            sync(folder)
    before = {step.place: step.old for step in reversed(steps)}
    return [place for place, old in before.items() if look(root / place) != old]


def _undo_step(root: Path, number: int, step: Step) -> None:
    target, copy = root / step.place, old_copy(root, number)
    if look(target) != step.new or not target.parent.is_dir():
        return  # not done, undone already, or its user's by now
    if step.old is not None:
        if look(copy) != step.old:
            raise journal.damaged(root, f"its copy of {step.place} is missing or damaged")
        os.replace(copy, target)
    elif step.new != FOLDER:
        target.unlink()
    elif not os.listdir(target):  # its user may have put something into it
        target.rmdir()
