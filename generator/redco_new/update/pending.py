"""The changes of the template that a project does not hold, until its user settles them."""

import difflib
import shlex
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from redco_new.project.manifest import Manifest, Pending, sha256
from redco_new.merge import Conflict, symbol_text
from redco_new.update.outcome import Outcome

INCOMING = ".redco/incoming/"


def chosen(manifest: Manifest, outcome: Outcome, side: str) -> set[str]:
    """The symbols in conflict for which that side was chosen, of the very change that is there now.

    The template's is chosen only of what the user had written by then.
    """
    told = {
        (x.symbol, x.theirs)
        for x in manifest.pending
        if x.path == outcome.path
        and x.side == side
        and (side == "mine" or x.given == given_up(outcome.before, x))
    }
    new = {x.symbol for x in outcome.conflicts if (x.symbol, x.theirs) not in told}
    return {x.symbol for x in outcome.conflicts} - new


def given_up(ours: bytes | None, each: Pending) -> str:
    """sha256 of what the user's file says of what is pending."""
    text = symbol_text(ours or b"", each.symbol) if each.path.endswith(".py") else None
    return sha256(ours or b"" if text is None else text.encode())


def taken_back(manifest: Manifest, outcome: Outcome) -> set[str]:
    """The symbols in conflict that the template has again as it had them before they were pending."""
    if not outcome.path.endswith(".py"):
        return set()  # where lines of a text file began is not known
    began = {(x.symbol, x.base) for x in manifest.pending if x.path == outcome.path and x.applied}
    return {x.symbol for x in outcome.conflicts if (x.symbol, x.theirs) in began}


def without(outcome: Outcome, symbols: set[str]) -> Outcome:
    """Without the conflicts about those symbols."""
    kept = tuple(x for x in outcome.conflicts if x.symbol not in symbols)
    return replace(outcome, conflicts=kept)


def to_settle(
    manifest: Manifest,
    outcome: Outcome,
    base: bytes | None,
    conflicts: Iterable[Conflict],
    applied: bool,
) -> list[Pending]:
    """What is to be remembered of these conflicts of a file.

    base: what redco wrote before.  A change that is pending already is shown from where it began.
    """
    path, found = outcome.path, []
    before = {x.symbol: x for x in manifest.pending if x.path == path}
    for each in conflicts:
        known = before.get(each.symbol)
        text = known.base if known else symbol_text(base or b"", each.symbol) or ""
        now = Pending(path, each.symbol, each.reason, each.theirs, text, applied=applied)
        again = known and not applied and known.theirs == each.theirs
        if again and known.given == given_up(outcome.before, known):  # it could not be taken
            now = replace(now, side=known.side, given=known.given)
        found.append(replace(now, given=given_up(outcome.after, now)) if applied else now)
    return found


def incoming(pending: Iterable[Pending]) -> dict[str, str]:
    """{path: text} of the files that show what is pending: the template's changes, as diffs."""
    files: dict[str, list[Pending]] = defaultdict(list)
    for each in pending:
        files[each.path].append(each)
    return {
        f"{INCOMING}{path}.diff": "\n".join(map(shown, sorted(found, key=lambda x: x.symbol)))
        for path, found in sorted(files.items())
    }


def shown(each: Pending) -> str:
    """A pending change for a person: what it is, what to do, and the diff."""
    lines = difflib.unified_diff(
        each.base.splitlines(),
        each.theirs.splitlines(),
        "redco before",
        "redco now",
        lineterm="",
        n=9,
    )
    head = [f"{name(each)}: {each.reason}. Keep yours or take it:", *commands(each)]
    return "\n".join([*(f"# {line}" for line in head), *lines, ""])


def commands(each: Pending) -> list[str]:
    """Those that settle it: your side, redco's."""
    return [f"redco resolve {quoted(each)} --{side}" for side in ("mine", "theirs")]


def name(each: Pending | tuple[str, str]) -> str:
    """my_project/pipeline.py::loss"""
    path, symbol = each if isinstance(each, tuple) else (each.path, each.symbol)
    return f"{path}::{symbol}"


def quoted(each: Pending) -> str:
    """Its name as a shell takes it."""
    return shlex.quote(name(each))
