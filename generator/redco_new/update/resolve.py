"""`redco resolve`: whose side of a conflict it is to be."""

from dataclasses import replace
from pathlib import Path

from redco_new.errors import RedcoError, Refusal
from redco_new.project.manifest import Manifest, Pending
from redco_new.merge import take
from redco_new.transaction import Change, apply
from redco_new.update import write
from redco_new.update.pending import INCOMING, given_up, name
from redco_new.update.run import open_project
from redco_new.update.standing import Standing, stand


def resolve(root: Path, target: str, side: str) -> list[Pending]:
    """Settle what is pending of `target`, PATH or PATH::SYMBOL. Returns all that still is, with the sides.

    side: "mine" or "theirs". Of an update that is applied already, the file gets their side now;
    of one that is not, the next `redco update` goes by it. Raises RedcoError.
    """
    with open_project(root):
        standing = stand(root)
        manifest = standing.manifest
        found = matching(manifest, target)
        changes = taken(standing, found) if side == "theirs" else []
        pending = [
            (
                replace(each, side=side, given=given_up(standing.ours(each.path), each))
                if each in found
                else each
            )
            for each in manifest.pending
            if not (each in found and each.applied)
        ]
        apply(root, changes + write.remembered(standing, replace(manifest, pending=tuple(pending))))
    return pending


def matching(manifest: Manifest, target: str) -> list[Pending]:
    """What is pending of `target`. Raises RedcoError if nothing is."""
    path, _, symbol = target.partition("::")
    found = [x for x in manifest.pending if x.path == path and symbol in ("", x.symbol)]
    if not found:
        known = ", ".join(map(name, manifest.pending))
        todo = f"there is {known}" if known else "there is nothing to resolve"
        raise RedcoError("PATH", f"{target} is not pending", todo)
    return found


def taken(standing: Standing, found: list[Pending]) -> list[Change]:
    """The files with the template's side, of what was applied. Raises Refusal if that is not certain."""
    changes = []
    applied = [each for each in found if each.applied]
    for path in sorted({each.path for each in applied}):
        before = content = standing.ours(path)
        theirs = standing.base(path, None)
        if before is None:
            raise Refusal(path, "you deleted it: there is nothing to take that into", "say --mine")
        for each in (x for x in applied if x.path == path):
            if each.given != given_up(before, each):
                what = f"you changed {name(each)} since it was told"
                todo = "run `redco update`, look at it again, then resolve it"
                raise Refusal(path, what, todo)
            how = {"removes": not each.theirs, "added": not each.base}
            content = take(content, theirs, each.symbol, **how) if theirs else None
            if content is None:
                what = f"{name(each)} cannot be taken on its own"
                todo = f"take it by hand from {INCOMING}{path}.diff, then say --mine"
                raise Refusal(path, what, todo)
        changes.append(write.change(path, before, content))
    return changes
