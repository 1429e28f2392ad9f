"""What the commands that update a project print."""

import difflib
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import BytesIO

from redco_new.errors import RedcoError
from redco_new.project.manifest import Pending, base_path
from redco_new.merge import changed_lines, changed_symbols
from redco_new.update.outcome import Outcome
from redco_new.update.pending import INCOMING, commands, name
from redco_new.update.specs import changed_specs
from redco_new.update.standing import inside, outside
from redco_new.update.work import Update

WIDTH = 28  # of the column of paths
SYMBOLS = 8  # that are named of a file


def done(update: Update, told: Iterable[str], *, partial: bool, command: str) -> int:
    """After `redco update`: what was done, or what is to be settled first. Returns the exit code."""
    if update.blocking and not partial:
        refused(update, command)
        return 1
    count = len(update.files)
    if count:
        print(f"Updated {update.request.name}: {plural(count, 'file')}.")
    else:
        print(f"{update.request.name}: nothing to update.")
    show(update)
    for pending in update.left:
        print(f"\n{name(pending)}: {pending.reason}.")
        shown = outside(update.standing.root, f"{INCOMING}{pending.path}.diff")
        print(f"  It is in {shown}. Keep yours or take it:")
        print(to_resolve(update, pending))
    for note in told:
        print(f"note: {note}")
    return 1 if update.blocking else 0


def refused(update: Update, command: str) -> None:
    """The conflicts, and how to go on."""
    found = update.held
    print(f"{plural(len(found), 'conflict')}, and nothing was changed:", file=sys.stderr)
    for each in found:
        print(f"  {name(each)}: {each.reason}", file=sys.stderr)
    shown = outside(update.standing.root, INCOMING)
    print(
        f"\nWhat redco writes there is in {shown}/. Settle each, one way or the other:",
        file=sys.stderr,
    )
    for each in found:
        print(to_resolve(update, each), file=sys.stderr)
    print(f"and run this again:\n  {command}", file=sys.stderr)
    print(f"Or apply the rest now, with your side there:\n  {command} --partial", file=sys.stderr)


def to_resolve(update: Update, each: Pending) -> str:
    """The commands that settle it, as they are typed in the working folder."""
    here = replace(each, path=outside(update.standing.root, each.path))
    return "\n".join(f"  {command}" for command in commands(here))


def plan(update: Update) -> int:
    """`--dry-run`. Returns the exit code."""
    print(f"{update.request.name}: {plural(len(update.files), 'file')} would change.")
    show(update)
    for path, conflict in update.conflicts:
        kind = "pending" if conflict.pending else "conflict"
        print(f"{kind}: {name((path, conflict.symbol))}: {conflict.reason}")
    return 1 if update.blocking else 0


def show(update: Update) -> None:
    """A line for each file that changes, and what the user should know of it."""
    for path, outcome in update.outcomes.items():
        if outcome.changed:
            print(f"  {path:{WIDTH}} {shortened(what(outcome))}")
            if path.endswith("/sharding.py") and outcome.before and outcome.after:
                for line in changed_specs(outcome.before, outcome.after):
                    print(f"      {line}")
    for path, outcome in update.outcomes.items():
        for note in [*outcome.warnings, *filter(None, [outcome.note])]:
            print(f"note: {path}: {note}")
    for note in update.notes:
        print(f"note: {note}")


def what(outcome: Outcome) -> list[str]:
    """What changes in a file: "new", "removed", "~ Layer.__call__", "+3 -1 lines"."""
    before, after = outcome.before, outcome.after
    if before is None or after is None:
        return ["new" if before is None else "removed"]
    if outcome.path.endswith(".py"):
        return [f"{sign} {symbol}" for sign, symbol in changed_symbols(before, after)] or ["layout"]
    added, removed = changed_lines(before, after)
    return [f"+{added} -{removed} lines"]


def shortened(found: list[str]) -> str:
    """In one line."""
    more = f", and {len(found) - SYMBOLS} more" if len(found) > SYMBOLS else ""
    return ", ".join(found[:SYMBOLS]) + more


def diff(update: Update, typed: str) -> int:
    """`--diff`: as one patch. Raises RedcoError for a path that is no file of the project."""
    only = inside(update.standing.root, typed) if typed else None
    if only is not None and only not in update.outcomes:
        raise RedcoError("--diff", f"{typed} is no file that redco writes", "see --dry-run")
    for path, outcome in update.outcomes.items():
        if outcome.changed and only in (None, path):
            sys.stdout.writelines(patch(outcome))
    return 1 if update.blocking else 0


def patch(outcome: Outcome) -> Iterator[str]:
    sides = [
        [line.decode(errors="replace") for line in BytesIO(x or b"")]
        for x in (outcome.before, outcome.after)
    ]
    names = [
        "/dev/null" if x is None else f"{side}/{outcome.path}"
        for side, x in (("a", outcome.before), ("b", outcome.after))
    ]
    for line in difflib.unified_diff(*sides, *names):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def check(update: Update, *, as_json: bool) -> int:
    """`--check`. Returns the exit code: 1 if anything is to be done."""
    manifest = update.standing.manifest
    new = [name((path, each.symbol)) for path, each in update.conflicts if each.pending]
    found = {
        "stale": {path: what(each) for path, each in update.outcomes.items() if each.changed},
        "conflicts": [name((path, each.symbol)) for path, each in update.blocking],
        "pending": list(dict.fromkeys([*map(name, manifest.pending), *new])),
        "damaged": [base_path(path) for path in update.standing.damaged],
    }
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        for kind, entries in found.items():
            for entry in entries:
                print(f"{kind}: {entry}")
    return int(any(found.values()))


def resolved(pending: list[Pending]) -> None:
    """After `redco resolve`: what is still to be settled, and whether an update is to be run."""
    for each in pending:
        if not each.side:
            print(f"still to settle: {name(each)}")
    waiting = [each for each in pending if not each.applied]
    if waiting and all(each.side for each in waiting):
        print("Settled: `redco update` goes by it.")
    elif not pending:
        print("Settled.")


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
