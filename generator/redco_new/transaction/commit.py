"""Applying an update: stage all of it, record it, do it, commit it."""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from redco_new.errors import RedcoError
from redco_new.project.manifest import sha256
from redco_new.transaction import journal
from redco_new.transaction.disk import FOLDER, copy_rights, look, sync, told
from redco_new.transaction.journal import new_copy, old_copy, staging_folder
from redco_new.transaction.paths import check_project
from redco_new.transaction.plan import Change, Step, changed, locate_all, plan
from redco_new.transaction.recovery import recover

CANNOT = "cannot be written: {why}, and nothing was changed"


def apply(root: Path, changes: Iterable[Change]) -> None:
    """Make all `changes` to the project `root`, or none; the caller has it `locked`.

    Raises RedcoError, with all files as they were, if an earlier update is unfinished, a path is
    not a file of the project's, a file is not as expected, or the disk does not let it. Where the
    disk does not let it undo what it did, the error says so, and `recover` is left to do it.
    """
    check_project(root)
    if os.path.lexists(staging_folder(root)):
        raise RedcoError(str(root), "an update of it was interrupted", "run `redco update`")
    placed = locate_all(root, changes)
    steps = plan(root, placed)
    if not steps:
        return
    try:
        _stage(root, steps, placed)
        _carry_out(root, steps)
        with told(str(root), CANNOT):
            journal.remove(root)
    except BaseException:
        recover(root)
        raise
    with contextlib.suppress(OSError):  # the update is done; the next recover clears what stays
        journal.clear(root)


def _stage(root: Path, steps: list[Step], placed: Mapping[str, Change]) -> None:
    with told(str(root), CANNOT):
        staging_folder(root).mkdir(mode=0o700)
    for number, step in enumerate(steps):
        with told(step.place, CANNOT):
            _keep_old(root, number, step)
            _prepare_new(root, number, step, placed)
    with told(str(root), CANNOT):
        for staged in staging_folder(root).iterdir():
            sync(staged)
        journal.write(root, steps)


def _keep_old(root: Path, number: int, step: Step) -> None:
    source, copy = root / step.place, old_copy(root, number)
    if step.old is None:
        return
    if step.old == FOLDER:
        copy.mkdir()
    else:
        content = source.read_bytes()
        if sha256(content) != step.old:
            raise changed(step.place)
        copy.write_bytes(content)
    copy_rights(source, copy)


def _prepare_new(root: Path, number: int, step: Step, placed: Mapping[str, Change]) -> None:
    copy = new_copy(root, number)
    if step.new is None:
        return
    if step.new == FOLDER:
        copy.mkdir()
        return
    change = placed[step.place]
    copy.write_bytes(change.content)
    if step.old is not None:
        copy_rights(root / step.place, copy)
    elif change.executable:
        copy.chmod(copy.stat().st_mode | 0o111)


def _carry_out(root: Path, steps: list[Step]) -> None:
    for number, step in enumerate(steps):
        with told(step.place, CANNOT):
            _do(root, number, step)
    with told(str(root), CANNOT):
        for folder in {(root / step.place).parent for step in steps}:
            if folder.is_dir():
                sync(folder)


def _do(root: Path, number: int, step: Step) -> None:
    target = root / step.place
    if look(target) != step.old:
        raise changed(step.place)
    if step.new is not None:
        os.replace(new_copy(root, number), target)
    elif step.old == FOLDER:
        target.rmdir()
    else:
        target.unlink()
