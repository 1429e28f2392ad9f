"""What the commands that update a project print."""

import ast
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from redco_merge import changed_lines, changed_symbols

from redco_new.project.manifest import PendingChange
from redco_new.render.owners import in_runtime
from redco_new.update.adopt import Adoption
from redco_new.update.file_merge import FileMerge
from redco_new.update.pending import INCOMING, resolve_commands, symbol_target
from redco_new.update.plan import UpdatePlan
from redco_new.project.state import (
    path_from_here,
    read_file,
)

# What fits a screen of 100 columns and about 50 lines.
PATH_WIDTH = 28  # of the column of paths
MAX_SYMBOLS = 8  # that are named of a file
MAX_SPECS = 20  # lines about sharding.py

RESTORES = "a generated file that is missing comes back: `redco eject` one to go without it"
SPEC_TABLES = ("AXES", "PARAMS", "ACTIVATIONS", "MOMENTS")  # of a project's sharding.py


def print_update(
    plan: UpdatePlan, trial_notes: Iterable[str], *, partial: bool, command: str
) -> int:
    """Print what `redco update` did, or what is to be decided first. Returns the exit code.

    command: as it was typed, to be run again.
    """
    if plan.blocking_conflicts and not partial:
        _print_refusal(plan, command)
        return 1
    count = len(plan.changed_files)
    if count:
        print(f"Updated {plan.request.name}: {_plural(count, 'file')}.")
    else:
        print(f"{plan.request.name}: nothing to update.")
    _print_files(plan)
    for change in plan.pending_if_applied:
        print(f"\n{symbol_target(change.path, change.symbol)}: {change.reason}.")
        diff = path_from_here(plan.state.root, f"{INCOMING}{change.path}.diff")
        print(f"  It is in {diff}. Keep yours or take it:")
        print(_commands_from_here(plan, change))
    for note in trial_notes:
        print(f"note: {note}")
    return 1 if plan.blocking_conflicts else 0


def _print_refusal(plan: UpdatePlan, command: str) -> None:
    """Print the conflicts, and how to go on."""
    changes = plan.pending_if_refused
    print(f"{_plural(len(changes), 'conflict')}, and nothing was changed:", file=sys.stderr)
    for change in changes:
        print(f"  {symbol_target(change.path, change.symbol)}: {change.reason}", file=sys.stderr)
    folder = path_from_here(plan.state.root, INCOMING)
    print(
        f"\nWhat redco writes there is in {folder}/. Settle each, one way or the other:",
        file=sys.stderr,
    )
    for change in changes:
        print(_commands_from_here(plan, change), file=sys.stderr)
    print(f"and run this again:\n  {command}", file=sys.stderr)
    print(f"Or apply the rest now, with your side there:\n  {command} --partial", file=sys.stderr)


def _commands_from_here(plan: UpdatePlan, change: PendingChange) -> str:
    """Return the commands that settle it, as they are typed in the working folder."""
    target = symbol_target(path_from_here(plan.state.root, change.path), change.symbol)
    return "\n".join(f"  {command}" for command in resolve_commands(target))


def print_dry_run(plan: UpdatePlan) -> int:
    """Print what `--dry-run` shows. Returns the exit code."""
    print(f"{plan.request.name}: {_plural(len(plan.changed_files), 'file')} would change.")
    _print_files(plan)
    for path, conflict in plan.conflicts:
        kind = "pending" if conflict.pending else "conflict"
        print(f"{kind}: {symbol_target(path, conflict.symbol)}: {conflict.reason}")
    return 1 if plan.blocking_conflicts else 0


def _print_files(plan: UpdatePlan) -> None:
    """Print a line for each file that changes, and what the user should know of it."""
    swapped = {path: merge for path, merge in plan.merges.items() if _is_swapped(plan, merge)}
    if swapped:
        print(
            f"  runtime: {_plural(len(swapped), 'file')}, untouched, swapped{_come_and_gone(swapped)}"
        )
    for path, merge in plan.merges.items():
        if merge.changed and path not in swapped:
            print(f"  {path:{PATH_WIDTH}} {_shorten(_differences(merge))}")
            if path.endswith("/sharding.py") and merge.before and merge.after:
                for line in _spec_lines(merge.before, merge.after):
                    print(f"      {line}")
            for line in (line for step in merge.steps for line in step.rewritings):
                print(f"      migrated: {line}")
    for path, merge in plan.merges.items():
        for note in [*merge.warnings, *filter(None, [merge.note])]:
            print(f"note: {path}: {note}")
    if any(merge.restores for merge in plan.merges.values()):
        print(f"note: {RESTORES}")
    for note in plan.notes:
        print(f"note: {note}")


def _is_swapped(plan: UpdatePlan, merge: FileMerge) -> bool:
    """Tell whether a file of the runtime, as redco wrote it, becomes what redco writes now."""
    untouched = merge.before == plan.state.base(merge.path) and not merge.warnings
    return merge.changed and in_runtime(merge.path) and untouched


def _come_and_gone(merges: Mapping[str, FileMerge]) -> str:
    """Return how many of these files are new, and how many are removed: ": 2 new, 1 removed"; "" for none."""
    new = sum(merge.before is None for merge in merges.values())
    removed = sum(merge.after is None for merge in merges.values())
    counts = [f"{x} {word}" for x, word in ((new, "new"), (removed, "removed")) if x]
    return f": {', '.join(counts)}" if counts else ""


def _differences(merge: FileMerge) -> list[str]:
    """Return what changes in a file: "new", "removed", "~ Layer.__call__", "+3 -1 lines"."""
    before, after = merge.before, merge.after
    if merge.restores:
        return ["restored"]
    if before is None or after is None:
        return ["new" if before is None else "removed"]
    if merge.path.endswith(".py"):
        return [f"{sign} {symbol}" for sign, symbol in changed_symbols(before, after)] or ["layout"]
    added, removed = changed_lines(before, after)
    return [f"+{added} -{removed} lines"]


def _shorten(differences: list[str]) -> str:
    """Return them in one line."""
    hidden = len(differences) - MAX_SYMBOLS
    return ", ".join(differences[:MAX_SYMBOLS]) + (f", and {hidden} more" if hidden > 0 else "")


def _spec_lines(before: bytes, after: bytes) -> list[str]:
    """Return what changes in the specs of a sharding.py, parameter by parameter.

    Lines such as "+ layers/mlp/up/kernel P(None, 'model')"; the first MAX_SPECS, and how many more.
    """
    old, new = _spec_tables(before), _spec_tables(after)
    lines = [
        line
        for table in SPEC_TABLES
        for line in _spec_table_lines(old.get(table, {}), new.get(table, {}))
    ]
    more = [f"... and {len(lines) - MAX_SPECS} more"] if len(lines) > MAX_SPECS else []
    return lines[:MAX_SPECS] + more


def _spec_table_lines(old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    for path in [*new, *(path for path in old if path not in new)]:
        if path not in old:
            yield f"+ {path} {new[path]}"
        elif path not in new:
            yield f"- {path} {old[path]}"
        elif old[path] != new[path]:
            yield f"~ {path} {old[path]} -> {new[path]}"


def _spec_tables(content: bytes) -> dict[str, dict[str, str]]:
    """Return the tables of a sharding.py, as text; none of one that is not Python."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return {}
    return {
        node.targets[0].id: {
            ast.literal_eval(key): ast.unparse(value)
            for key, value in zip(node.value.keys, node.value.values, strict=True)
            if isinstance(key, ast.Constant)
        }
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Dict)
    }


def drift_of(plan: UpdatePlan) -> dict[str, Any]:
    """Return what an update would do.

    stale: file -> what would change in it.
    conflicts: what both sides changed, as PATH::SYMBOL.
    pending: what was left for later.
    """
    pending = [symbol_target(x.path, x.symbol) for x in plan.state.manifest.pending]
    pending += [symbol_target(path, x.symbol) for path, x in plan.conflicts if x.pending]
    return {
        "stale": {path: _differences(x) for path, x in plan.merges.items() if x.changed},
        "conflicts": [symbol_target(path, x.symbol) for path, x in plan.blocking_conflicts],
        "pending": list(dict.fromkeys(pending)),
    }


def print_check(plan: UpdatePlan, *, as_json: bool) -> int:
    """Print what `--check` shows. Returns the exit code: 1 if anything is to be done."""
    drift = drift_of(plan)
    if as_json:
        print(json.dumps(drift, indent=2))
    else:
        for kind, entries in drift.items():
            for entry in entries:
                print(f"{kind}: {entry}")
    return int(any(drift.values()))


def print_adoption(root: Path, adoption: Adoption) -> None:
    """Print what `redco adopt` took a project for, and what it counts as its user's edits."""
    request, count = adoption.base.request, len(adoption.base.files)
    mesh = ", ".join(f"{axis}={size}" for axis, size in request.mesh.items() if size != 1)
    what = " ".join(filter(None, (request.model_name, request.size, request.recipe)))
    print(f"Adopted {request.name}: {what} over {mesh or 'one device'}, {_plural(count, 'file')}.")
    for path in adoption.edited_paths:
        lines = changed_lines(adoption.base.files[path].encode(), read_file(root, path) or b"")
        print(f"  {path:{PATH_WIDTH}} yours in {_plural(sum(lines), 'line')}")
    for path in adoption.missing_paths:
        print(f"  {path:{PATH_WIDTH}} is not there")
    print("Look at what an update would change: redco update --dry-run")


def print_resolved(pending: list[PendingChange]) -> None:
    """Print what is still to be decided after `redco resolve`, and whether to run an update."""
    for change in pending:
        if not change.side:
            print(f"still to settle: {symbol_target(change.path, change.symbol)}")
    waiting = [change for change in pending if not change.update_applied]
    if waiting and all(change.side for change in waiting):
        print("Settled: `redco update` goes by it.")
    elif not pending:
        print("Settled.")


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
