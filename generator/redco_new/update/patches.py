"""The patches that `redco diff` and `redco update --diff` print."""

import difflib
import sys
from collections.abc import Iterator
from io import BytesIO

from redco_new.errors import RedcoError
from redco_new.project.state import ProjectState, path_in_project
from redco_new.update.file_merge import FileMerge
from redco_new.update.plan import UpdatePlan


def print_edits(state: ProjectState, argument: str) -> None:
    """Print what `redco diff` shows: what the user made of what redco wrote, as one patch.

    argument: the file or the folder, as typed; "" for all.  Raises RedcoError for what holds no file of redco's.
    """
    only = path_in_project(state.root, argument) if argument else "."
    paths = [x for x in state.records.base if only in (".", x) or x.startswith(f"{only}/")]
    if not paths:
        todo = "see redco diff, without it"
        raise RedcoError("PATH", f"redco wrote no file {argument}", todo)
    for path in paths:
        before, after = state.base(path), state.ours(path)
        if before != after:
            sys.stdout.writelines(_diff(path, before, after))


def print_diff(plan: UpdatePlan, argument: str) -> int:
    """Print what `--diff` shows: one patch. Returns the exit code.

    argument: the file, as typed; "" for all.  Raises RedcoError for what is no file of the project.
    """
    only = path_in_project(plan.state.root, argument) if argument else None
    if only is not None and only not in plan.merges:
        raise RedcoError("--diff", f"{argument} is no file that redco writes", "see --dry-run")
    for path, merge in plan.merges.items():
        if merge.changed and only in (None, path):
            sys.stdout.writelines(_patch(merge))
    return 1 if plan.blocking_conflicts else 0


def _patch(merge: FileMerge) -> Iterator[str]:
    """Yield the lines of the patches of a file: one for each migration of it, then the merge."""
    content = merge.before
    for step in merge.steps:
        yield f"redco: {step.title}\n"
        yield from _diff(merge.path, content, step.content)
        content = step.content
    yield from _diff(merge.path, content, merge.after)


def _diff(path: str, before: bytes | None, after: bytes | None) -> Iterator[str]:
    old_lines, new_lines = (
        [line.decode(errors="replace") for line in BytesIO(content or b"")]
        for content in (before, after)
    )
    old, new = (
        "/dev/null" if content is None else f"{side}/{path}"
        for side, content in (("a", before), ("b", after))
    )
    for line in difflib.unified_diff(old_lines, new_lines, old, new):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
