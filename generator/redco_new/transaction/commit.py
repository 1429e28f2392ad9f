"""Making the changes of a transaction, and undoing one that was not committed.

No file is written before a copy of what lies there is in .redco/staging/, with a journal that names
all steps. Removing the journal is what commits; whatever happens before that, an error or a kill,
`recover` takes back.
"""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from redco_new.errors import RedcoError
from redco_new.transaction.disk import FOLDER, check_project, copy_rights, os_errors_named
from redco_new.transaction.disk import sha256, state_of, sync_to_disk
from redco_new.transaction.journal import (
    clear_staging,
    journal_error,
    new_copy,
    old_copy,
    read_journal,
    remove_journal,
    staging_folder,
    unfinished,
    write_journal,
)
from redco_new.transaction.steps import Change, Step, concurrent_edit, locate_all, plan_steps

CANNOT_WRITE = "cannot be written: {why}, and nothing was changed"
CANNOT_UNDO = "an interrupted update of it cannot be undone: {why}"


def apply(root: Path, changes: Iterable[Change]) -> None:
    """Make all `changes` to the project `root`, or none; the caller has it `locked`.

    Raises RedcoError, with all files as they were, if an earlier update is unfinished, a path is
    not a file of the project's, a file is not as expected, or the disk does not let it. Where the
    disk does not let it undo what it did, the error says so, and `recover` is left to do it.
    """
    check_project(root)
    if os.path.lexists(staging_folder(root)):
        raise RedcoError(str(root), "an update of it was interrupted", "run `redco update`")
    located = locate_all(root, changes)
    steps = plan_steps(root, located)
    if not steps:
        return
    try:
        _stage(root, steps, located)
        _take_steps(root, steps)
        with os_errors_named(str(root), CANNOT_WRITE):
            remove_journal(root)
    except BaseException:
        recover(root)
        raise
    with contextlib.suppress(OSError):  # the update is done; the next recover clears what stays
        clear_staging(root)


def _stage(root: Path, steps: list[Step], located: Mapping[str, Change]) -> None:
    with os_errors_named(str(root), CANNOT_WRITE):
        staging_folder(root).mkdir(mode=0o700)
    for number, step in enumerate(steps):
        with os_errors_named(step.path, CANNOT_WRITE):
            _stage_old(root, number, step)
            _stage_new(root, number, step, located)
    with os_errors_named(str(root), CANNOT_WRITE):
        for copy in staging_folder(root).iterdir():
            sync_to_disk(copy)
        write_journal(root, steps)


def _stage_old(root: Path, number: int, step: Step) -> None:
    source, copy = root / step.path, old_copy(root, number)
    if step.old is None:
        return
    if step.old == FOLDER:
        copy.mkdir()
    else:
        content = source.read_bytes()
        if sha256(content) != step.old:
            raise concurrent_edit(step.path)
        copy.write_bytes(content)
    copy_rights(source, copy)


def _stage_new(root: Path, number: int, step: Step, located: Mapping[str, Change]) -> None:
    copy = new_copy(root, number)
    if step.new is None:
        return
    if step.new == FOLDER:
        copy.mkdir()
        return
    change = located[step.path]
    assert change.content is not None, "a step with a new state writes a file"
    copy.write_bytes(change.content)
    if step.old is not None:
        copy_rights(root / step.path, copy)
    elif change.executable:
        copy.chmod(copy.stat().st_mode | 0o111)


def _take_steps(root: Path, steps: list[Step]) -> None:
    for number, step in enumerate(steps):
        with os_errors_named(step.path, CANNOT_WRITE):
            _take_step(root, number, step)
    with os_errors_named(str(root), CANNOT_WRITE):
        _sync_folders(root, steps)


def _take_step(root: Path, number: int, step: Step) -> None:
    target = root / step.path
    if state_of(target) != step.old:
        raise concurrent_edit(step.path)
    if step.new is not None:
        os.replace(new_copy(root, number), target)
    elif step.old == FOLDER:
        target.rmdir()
    else:
        target.unlink()


def _sync_folders(root: Path, steps: list[Step]) -> None:
    """Wait until what `steps` did to the entries of folders is on the disk."""
    for folder in {(root / step.path).parent for step in steps}:
        if folder.is_dir():
            sync_to_disk(folder)


def recover(root: Path) -> list[str]:
    """Undo the transaction that a killed process left on `root`, if any; the caller has the lock.

    Killed itself, it is run again.  Returns the paths that are not as they were before, because
    they were changed by hand since: those it leaves as they are.
    Raises RedcoError if the journal cannot be followed, or the disk does not let it.
    """
    check_project(root)
    edits: list[str] = []
    if not os.path.lexists(staging_folder(root)):
        return edits
    with os_errors_named(str(root), CANNOT_UNDO):
        if unfinished(root):
            edits = _undo(root, read_journal(root))
            remove_journal(root)
        clear_staging(root)
    return edits


def _undo(root: Path, steps: list[Step]) -> list[str]:
    for number, step in reversed(list(enumerate(steps))):
        with os_errors_named(step.path, CANNOT_UNDO):
            _undo_step(root, number, step)
    _sync_folders(root, steps)
    before = {step.path: step.old for step in reversed(steps)}
    return [path for path, old in before.items() if state_of(root / path) != old]


def _undo_step(root: Path, number: int, step: Step) -> None:
    target, copy = root / step.path, old_copy(root, number)
    if state_of(target) != step.new or not target.parent.is_dir():
        return  # not done, undone already, or its user's by now
    if step.old is not None:
        if state_of(copy) != step.old:
            raise journal_error(root, f"its copy of {step.path} is missing or damaged")
        os.replace(copy, target)
    elif step.new != FOLDER:
        target.unlink()
    elif not os.listdir(target):  # its user may have put something into it
        target.rmdir()
