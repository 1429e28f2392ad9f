"""`redco update`: work it out, try it, apply it, all of it or nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redco_new.errors import Refusal
from redco_new.transaction import apply, locked, recover, unfinished
from redco_new.update import write
from redco_new.update.asked import read_request
from redco_new.update.mirror import mirrored
from redco_new.update.standing import Standing, stand
from redco_new.update.trial import try_out
from redco_new.update.work import Progress, Update, work_out

WAIT_SECONDS = 60  # for another update of the project


def look(
    root: Path,
    flags: Mapping[str, Any],
    template: Path | None = None,
    progress: Progress = lambda step: None,
) -> Update:
    """What an update would do. Writes nothing. Raises RedcoError."""
    if unfinished(root):
        raise Refusal(str(root), "an update of it was interrupted", "run `redco update`")
    return worked_out(root, flags, template, progress)


def update(
    root: Path,
    flags: Mapping[str, Any],
    template: Path | None = None,
    progress: Progress = lambda step: None,
    *,
    partial: bool = False,
) -> tuple[Update, list[str]]:
    """Update the project `root` to what its redco.toml and `flags` ask for.

    partial: apply what is not in conflict.  Returns (what was worked out, notes of its trial); where
    a conflict is to be settled first, and not `partial`, nothing of the project was written.
    Raises RedcoError, with nothing written.
    """
    told: list[str] = []
    with open_project(root, progress):
        found = worked_out(root, flags, template, progress)
        if found.blocking and not partial:
            apply(root, write.refused(found))
            return found, told
        if found.unread:
            raise found.unread
        if any(path.endswith(".py") for path in found.files):
            with mirrored(root, found.files, found.climb) as project:
                told += try_out(project, found.request.package, found.mesh, progress)
        progress("writing")
        apply(root, write.applied(found))
    return found, told


def worked_out(
    root: Path, flags: Mapping[str, Any], template: Path | None, progress: Progress
) -> Update:
    standing: Standing = stand(root)
    asked = read_request(standing)
    return work_out(standing, asked, asked.with_flags(**flags), template, progress)


@contextmanager
def open_project(root: Path, progress: Progress = lambda step: None) -> Iterator[None]:
    """The project to ourselves, in one piece."""
    with locked(root, WAIT_SECONDS, progress):
        for path in recover(root):
            told = f"{path} was changed while an update was interrupted: it is as you left it"
            print(f"note: {told}", file=sys.stderr)
        yield
