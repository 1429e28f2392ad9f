"""An update as changes of files: those of the project, and what redco remembers of it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from redco_merge import WHOLE, symbol_text

from redco_new.project.archive import pack
from redco_new.project.manifest import Manifest, PendingChange
from redco_new.project.records import BASE, digests
from redco_new.transaction import MANIFEST, Change, sha256
from redco_new.update.pending import INCOMING, incoming_diffs, user_side_digest
from redco_new.update.plan import UpdatePlan
from redco_new.project.state import ProjectState, read_file


def refusal_changes(plan: UpdatePlan) -> list[Change]:
    """Return what is written where the user is to decide first: the conflicts, and nothing else."""
    manifest, merges = plan.state.manifest, plan.merges
    pending = [
        change
        for change in manifest.pending
        if change.update_applied
        or change.path in merges
        and change.symbol in merges[change.path].resolved_symbols
    ]
    pending += plan.pending_if_refused
    return record_changes(plan.state, replace(manifest, pending=tuple(pending)))


def update_changes(plan: UpdatePlan) -> list[Change]:
    """Return what is written of an update; the user's side of what is in conflict stays."""
    state = plan.state
    manifest = Manifest(
        plan.request.to_dict(),
        digests(plan.renderings),
        plan.fork,
        plan.ejected_paths,
        (*_still_pending(plan), *plan.pending_if_applied),
        plan.model_record,
    )
    project = [
        file_change(path, state.ours(path), content) for path, content in plan.changed_files.items()
    ]
    return [*project, *record_changes(state, manifest, plan.renderings)]


def _still_pending(plan: UpdatePlan) -> list[PendingChange]:
    """Return what was pending of earlier updates and still is: the template's side as it is now."""
    conflicts = {(path, conflict.symbol) for path, conflict in plan.conflicts}
    changes = (
        _current(plan, replace(change, path=plan.path_after(change.path)))
        for change in plan.state.manifest.pending
        if change.update_applied and (change.path, change.symbol) not in conflicts
    )
    return [change for change in changes if change]


def _current(plan: UpdatePlan, change: PendingChange) -> PendingChange | None:
    """Return a pending change of an earlier update as it is now.

    None if the file holds it by now, the template took it back, or the file is gone.
    """
    rendering, merge = plan.renderings.get(change.path), plan.merges.get(change.path)
    if rendering is None or merge is None or merge.after is None:
        return None
    if change.symbol != WHOLE and not change.path.endswith(".py"):
        return change  # lines of a text file cannot be found again
    theirs, mine = (symbol_text(x, change.symbol) or "" for x in (rendering, merge.after))
    if sha256(rendering) == plan.state.manifest.files.get(change.path):
        theirs = change.theirs
    if theirs in (change.base, mine):
        return None
    return replace(change, theirs=theirs, user_digest=user_side_digest(merge.after, change))


def record_changes(
    state: ProjectState, manifest: Manifest, base: Mapping[str, bytes] | None = None
) -> list[Change]:
    """Return the changes that write `manifest`, what redco wrote, and the diffs that show what is pending.

    base: path -> what redco wrote; None if that stays. An archive of the same is not written anew: another
    machine's xz may make other bytes of it.
    """
    present = {**state.records.files, **_incoming_files(state.root)}
    diffs = incoming_diffs(manifest.pending)
    contents = {path: text.encode() for path, text in diffs.items()}
    same = base is None or base == state.records.base
    packed = present.get(BASE) if same else None
    contents[BASE] = packed or pack(state.records.base if base is None else base)
    contents[MANIFEST] = manifest.to_json().encode()
    paths = sorted({*present, *contents})
    return [file_change(path, present.get(path), contents.get(path)) for path in paths]


def _incoming_files(root: Path) -> dict[str, bytes]:
    """Return path -> content of what lies under .redco/incoming."""
    paths: Iterable[Path] = (root / INCOMING).rglob("*.diff")
    names = sorted(path.relative_to(root).as_posix() for path in paths)
    return {name: content for name in names if (content := read_file(root, name)) is not None}


def file_change(path: str, before: bytes | None, after: bytes | None) -> Change:
    """Return the change from one content to another; a new script may be executed."""
    expected = None if before is None else sha256(before)
    return Change(path, after, expected, executable=bool(after and after.startswith(b"#!")))
