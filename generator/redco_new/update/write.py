"""An update as changes of files: those of the project, and what redco remembers of it."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from redco_new.project.manifest import MANIFEST, Manifest, Pending, base_path, sha256
from redco_new.merge import WHOLE, symbol_text
from redco_new.transaction import Change
from redco_new.update.pending import INCOMING, given_up, incoming
from redco_new.update.standing import Standing, read_file
from redco_new.update.work import Update


def refused(update: Update) -> list[Change]:
    """What is written where something is to be settled first: that it is, and nothing else."""
    manifest, outcomes = update.standing.manifest, update.outcomes
    kept = [
        each
        for each in manifest.pending
        if each.applied or each.path in outcomes and each.symbol in outcomes[each.path].settled
    ]
    return remembered(update.standing, replace(manifest, pending=(*kept, *update.held)))


def applied(update: Update) -> list[Change]:
    """What is written of an update; the user's side of what is in conflict stays."""
    standing, request = update.standing, update.request
    manifest = Manifest(
        request.to_dict(),
        {path: sha256(content) for path, content in update.rendered.items()},
        update.fork,
        standing.manifest.ejected,
        (*still_pending(update), *update.left),
        update.recorded,
    )
    project = [change(path, standing.ours(path), content) for path, content in update.files.items()]
    paths = sorted({*standing.copies, *update.rendered})
    base = [
        change(base_path(path), standing.copies.get(path), update.rendered.get(path))
        for path in paths
    ]
    return [*project, *base, *remembered(standing, manifest)]


def still_pending(update: Update) -> list[Pending]:
    """What was pending of earlier updates and still is: the template's side as it is now."""
    again = {(path, each.symbol) for path, each in update.conflicts}
    found = (
        now(update, each)
        for each in update.standing.manifest.pending
        if each.applied and (each.path, each.symbol) not in again
    )
    return [each for each in found if each]


def now(update: Update, each: Pending) -> Pending | None:
    """What is pending of an earlier update, as it is now; None if the file says the same, or is gone."""
    rendered, outcome = update.rendered.get(each.path), update.outcomes.get(each.path)
    if rendered is None or outcome is None or outcome.after is None:
        return None
    if each.symbol != WHOLE and not each.path.endswith(".py"):
        return each  # lines of a text file cannot be found again
    theirs, mine = (symbol_text(x, each.symbol) or "" for x in (rendered, outcome.after))
    if sha256(rendered) == update.standing.manifest.files.get(each.path):
        theirs = each.theirs
    if theirs in (each.base, mine):
        return None
    return replace(each, theirs=theirs, given=given_up(outcome.after, each))


def remembered(standing: Standing, manifest: Manifest) -> list[Change]:
    """The manifest, and the files that show what is pending."""
    files = incoming(manifest.pending)
    known = incoming_files(standing.root)
    changes = [
        change(path, known.get(path), files[path].encode() if path in files else None)
        for path in sorted({*files, *known})
    ]
    return [*changes, change(MANIFEST, standing.text, manifest.to_json().encode())]


def incoming_files(root: Path) -> dict[str, bytes]:
    """path -> content of what lies under .redco/incoming."""
    paths: Iterable[Path] = (root / INCOMING).rglob("*.diff")
    names = sorted(path.relative_to(root).as_posix() for path in paths)
    return {name: content for name in names if (content := read_file(root, name)) is not None}


def change(path: str, before: bytes | None, after: bytes | None) -> Change:
    """From one content to another; a new script may be executed."""
    expected = None if before is None else sha256(before)
    return Change(path, after, expected, executable=bool(after and after.startswith(b"#!")))
