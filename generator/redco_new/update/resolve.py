"""`redco resolve`: whose side of a conflict it is to be."""

from dataclasses import replace
from pathlib import Path

from redco_merge import take

from redco_new.errors import RedcoError, Refusal
from redco_new.project.manifest import Manifest, PendingChange
from redco_new.transaction import Change, apply
from redco_new.update.changes import file_change, record_changes
from redco_new.update.pending import INCOMING, symbol_target, user_side_digest
from redco_new.project.state import ProjectState, read_project_state
from redco_new.update.run import open_project


def resolve(root: Path, target: str, side: str) -> list[PendingChange]:
    """Choose `side` of what is pending of `target`. Returns all that is pending then.

    target: PATH or PATH::SYMBOL.
    side: "mine" or "theirs". Of an update that is applied already, the file gets their side now;
        of one that is not, the next `redco update` goes by it.
    Raises RedcoError.
    """
    with open_project(root):
        state = read_project_state(root)
        manifest = state.manifest
        matches = _matching(manifest, target)
        changes = _take_theirs(state, matches) if side == "theirs" else []
        pending = []
        for change in manifest.pending:
            if change not in matches:
                pending.append(change)
            elif not change.update_applied:
                digest = user_side_digest(state.ours(change.path), change)
                pending.append(replace(change, side=side, user_digest=digest))
        apply(root, changes + record_changes(state, replace(manifest, pending=tuple(pending))))
    return pending


def _matching(manifest: Manifest, target: str) -> list[PendingChange]:
    """Return what is pending of `target`. Raises RedcoError if nothing is."""
    path, _, symbol = target.partition("::")
    matches = [x for x in manifest.pending if x.path == path and symbol in ("", x.symbol)]
    if not matches:
        targets = ", ".join(symbol_target(x.path, x.symbol) for x in manifest.pending)
        todo = f"there is {targets}" if targets else "there is nothing to resolve"
        raise RedcoError("PATH", f"{target} is not pending", todo)
    return matches


def _take_theirs(state: ProjectState, matches: list[PendingChange]) -> list[Change]:
    """Return the files with the template's side, of what was applied.

    Raises Refusal if that is not certain.
    """
    changes = []
    applied = [change for change in matches if change.update_applied]
    for path in sorted({change.path for change in applied}):
        before, theirs = state.ours(path), state.base(path)
        if before is None:
            raise Refusal(path, "you deleted it: there is nothing to take that into", "say --mine")
        content = before
        for change in (x for x in applied if x.path == path):
            target = symbol_target(path, change.symbol)
            if change.user_digest != user_side_digest(before, change):
                what = f"you changed {target} since it was told"
                todo = "run `redco update`, look at it again, then resolve it"
                raise Refusal(path, what, todo)
            how = {"removes": not change.theirs, "added": not change.base}
            result = take(content, theirs, change.symbol, **how) if theirs else None
            if result is None:
                what = f"{target} cannot be taken on its own"
                todo = f"take it by hand from {INCOMING}{path}.diff, then say --mine"
                raise Refusal(path, what, todo)
            content = result
        changes.append(file_change(path, before, content))
    return changes
