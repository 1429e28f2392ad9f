"""The changes of the template that a project does not hold, until its user decides on each."""

import difflib
import shlex
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from redco_merge import Conflict, symbol_text

from redco_new.project.manifest import Manifest, PendingChange
from redco_new.transaction import sha256
from redco_new.update.file_merge import FileMerge

INCOMING = ".redco/incoming/"
CONTEXT_LINES = 9  # of a diff: three times the usual, since it is read without the file beside it


def symbols_with_decision(manifest: Manifest, merge: FileMerge, side: str) -> set[str]:
    """Return the symbols in conflict for which `side` was chosen, of the change that is there now.

    The template's side counts only for what the user had written when it was chosen.
    """
    decisions = {
        (change.symbol, change.theirs)
        for change in manifest.pending
        if change.path == merge.path
        and change.side == side
        and (side == "mine" or change.user_digest == user_side_digest(merge.before, change))
    }
    new = {x.symbol for x in merge.conflicts if (x.symbol, x.theirs) not in decisions}
    return {x.symbol for x in merge.conflicts} - new


def user_side_digest(ours: bytes | None, change: PendingChange) -> str:
    """Return the sha256 of what the user's file says of what is pending."""
    text = symbol_text(ours or b"", change.symbol) if change.path.endswith(".py") else None
    return sha256(ours or b"" if text is None else text.encode())


def symbols_back_at_base(manifest: Manifest, merge: FileMerge) -> set[str]:
    """Return the symbols in conflict that the template has again as before they were pending."""
    if not merge.path.endswith(".py"):
        return set()  # where lines of a text file began is not known
    starts = {
        (x.symbol, x.base) for x in manifest.pending if x.path == merge.path and x.update_applied
    }
    return {x.symbol for x in merge.conflicts if (x.symbol, x.theirs) in starts}


def without_conflicts(merge: FileMerge, symbols: set[str]) -> FileMerge:
    """Return the merge without the conflicts about those symbols."""
    conflicts = tuple(x for x in merge.conflicts if x.symbol not in symbols)
    return replace(merge, conflicts=conflicts)


def pending_changes(
    manifest: Manifest,
    merge: FileMerge,
    base: bytes | None,
    conflicts: Iterable[Conflict],
    update_applied: bool,
) -> list[PendingChange]:
    """Return what is to be remembered of these conflicts of a file.

    base: what redco wrote before.  A change that is pending already is shown from where it began.
    """
    changes = []
    earlier = {x.symbol: x for x in manifest.pending if x.path == merge.path}
    for conflict in conflicts:
        symbol, before = conflict.symbol, earlier.get(conflict.symbol)
        text = before.base if before else symbol_text(base or b"", symbol) or ""
        change = PendingChange(
            merge.path,
            symbol,
            conflict.reason,
            conflict.theirs,
            text,
            update_applied=update_applied,
        )
        if update_applied:
            change = replace(change, user_digest=user_side_digest(merge.after, change))
        elif before and before.theirs == conflict.theirs:
            # Still in conflict though a side was chosen: it could not be taken. The choice stays.
            if before.user_digest == user_side_digest(merge.before, before):
                change = replace(change, side=before.side, user_digest=before.user_digest)
        changes.append(change)
    return changes


def incoming_diffs(pending: Iterable[PendingChange]) -> dict[str, str]:
    """Return {path: text} of the files that show what is pending, as diffs of the template."""
    files: dict[str, list[PendingChange]] = defaultdict(list)
    for change in pending:
        files[change.path].append(change)
    return {
        f"{INCOMING}{path}.diff": "\n".join(map(_diff, sorted(changes, key=lambda x: x.symbol)))
        for path, changes in sorted(files.items())
    }


def _diff(change: PendingChange) -> str:
    """Return a pending change for a person: what it is, what to do, and the diff."""
    lines = difflib.unified_diff(
        change.base.splitlines(),
        change.theirs.splitlines(),
        "redco before",
        "redco now",
        lineterm="",
        n=CONTEXT_LINES,
    )
    target = symbol_target(change.path, change.symbol)
    head = [f"{target}: {change.reason}. Keep yours or take it:", *resolve_commands(target)]
    return "\n".join([*(f"# {line}" for line in head), *lines, ""])


def resolve_commands(target: str) -> list[str]:
    """Return the commands that settle it: for the user's side, for redco's."""
    return [f"redco resolve {shlex.quote(target)} --{side}" for side in ("mine", "theirs")]


def symbol_target(path: str, symbol: str) -> str:
    """Return how commands name a symbol of a file: my_project/pipeline.py::loss."""
    return f"{path}::{symbol}"
