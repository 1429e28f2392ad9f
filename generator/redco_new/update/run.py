"""`redco update`: plan it, try it, apply it, all of it or nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redco_new.errors import RedcoError, Refusal
from redco_new.transaction import apply, locked, recover, unfinished
from redco_new.update.changes import refusal_changes, update_changes
from redco_new.update.former import with_former
from redco_new.update.plan import Progress, UpdatePlan, plan_update
from redco_new.project.state import read_project_state
from redco_new.update.printed import printed_before
from redco_new.update.redco_toml import read_request
from redco_new.project.sandbox import mirror_project
from redco_new.update.trial_run import try_one_step

# For another update of the project. Two started by mistake end one after the other; a longer wait
# would hide one that hangs.
WAIT_SECONDS = 60


def preview_update(
    root: Path,
    flags: Mapping[str, Any],
    template: Path | None = None,
    progress: Progress = lambda step: None,
    *,
    print_model: bool = False,
) -> UpdatePlan:
    """Return what an update would do. Writes nothing. Raises RedcoError."""
    check_finished(root)
    return _plan(root, flags, template, progress, print_model)


def check_finished(root: Path) -> None:
    """Raise Refusal where an update of the project was interrupted: what lies there is of two moments."""
    if unfinished(root):
        raise Refusal(str(root), "an update of it was interrupted", "run `redco update`")


def update_project(
    root: Path,
    flags: Mapping[str, Any],
    template: Path | None = None,
    progress: Progress = lambda step: None,
    *,
    partial: bool = False,
    print_model: bool = False,
) -> tuple[UpdatePlan, list[str]]:
    """Update the project `root` to what its redco.toml and `flags` ask for.

    flags: as Request.with_flags takes them.
    partial: apply what is not in conflict.
    print_model: print a PyTorch class again, and merge that into model.py.

    Returns (the plan, notes of its trial); where the user is to decide on a conflict first, and not
    `partial`, nothing of the project was written.  Raises RedcoError, with nothing written.
    """
    notes: list[str] = []
    with open_project(root, progress):
        plan = _plan(root, flags, template, progress, print_model)
        if plan.blocking_conflicts and not partial:
            apply(root, refusal_changes(plan))
            return plan, notes
        if plan.reading_error:
            raise plan.reading_error
        files = plan.changed_files
        if any(path.endswith(".py") for path in files):
            with mirror_project(root, files, plan.levels_up) as project:
                notes += try_one_step(project, plan.request.package, plan.mesh, progress)
        progress("writing")
        apply(root, with_former(root, update_changes(plan)))
    return plan, notes


def _plan(
    root: Path,
    flags: Mapping[str, Any],
    template: Path | None,
    progress: Progress,
    print_model: bool,
) -> UpdatePlan:
    state = read_project_state(root)
    toml_request = read_request(state)
    request = toml_request.with_flags(**flags)
    if print_model and not request.via:
        what = (
            f"model.py was not printed from a PyTorch class, but written for {request.model_name}"
        )
        raise RedcoError("--print-model", what, "leave it out")
    if request.via and not print_model and request.model == toml_request.model:
        request = printed_before(request, state)
    return plan_update(state, toml_request, request, template, progress)


@contextmanager
def open_project(root: Path, progress: Progress = lambda step: None) -> Iterator[None]:
    """Lock the project and undo what an interrupted update left of it. Raises RedcoError."""
    with locked(root, WAIT_SECONDS, progress):
        for path in recover(root):
            edit = f"{path} was changed while an update was interrupted: it is as you left it"
            print(f"note: {edit}", file=sys.stderr)
        yield
