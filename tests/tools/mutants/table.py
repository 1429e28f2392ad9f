"""Draws mutants of a package, and counts those that its quick tests notice; writes tables/mutants.md.

    make table NAME=mutants ROWS="SEED [PACKAGE ...]"
    make table NAME=mutants ROWS="again [PACKAGE ...]"      # those that were not noticed, once more

recorded.jsonl has a line for each mutant; what it has is not run again, so that one may stop and go on. "equal", written
there by hand, says why a mutant that no test notices is no mistake. mutmut chooses tests by a trace of
them, and puts frames of its own into the program, whose frames the engine reads; cosmic-ray has one
command for all its mutants, and changes the files that are there. So this makes its own, on a copy.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from mutants.mutate import Mutant, mutants
from mutants.nearest import nearest
from mutants.trial import prepare, run

ROOT = Path(__file__).parents[3]
RECORDED = Path(__file__).with_name("recorded.jsonl")
PAGE = ROOT / "tests" / "tools" / "tables" / "mutants.md"
DRAWN = 20  # of a package
MOST = 60.0  # seconds of the CPU for the tests of a mutant

MERGE_TESTS = ("tests/merge", "tests/migrate")
PACKAGES = {
    "plan": ("generator/redco_plan", ("tests/sharding",)),
    "merge": ("generator/redco_merge", MERGE_TESTS),
    **{
        room: (
            f"runtime/redco_runtime/{room}",
            ("tests/runtime", "tests/recipes", "tests/families"),
        )
        for room in ("step", "data", "checkpoints", "cluster")
    },
}
INTRODUCTION = """\
# Mutants that the tests notice

Written by `make table NAME=mutants`: 20 mutants a package and a seed. A mutant is the package with one mistake: a
condition negated, a comparison turned, `and` for `or`, a `not` or a guard's only statement dropped, an integer plus one,
the other of True and False. Its own package's quick tests that reach it by imports run, those nearest by imports first
and of those the quickest, until one fails, or takes 30 s, or 60 s of the CPU are over (30 s for half of the rooms of seed 1, and for seed 2 of the engine and the merge).
What cannot be a mistake is left out (mutate.py): since seed 51 slices of a text in a message and numbers of made-up pictures too.
Tests that reach a module by the name of a feature are asked since then.
Of the rooms, `tests/families` is asked since seed 35 was drawn, and so for its *now*.
Seed 78 was drawn after the tests for what seed 77 left, and for lines that no quick test ran.
*noticed*: as the mutant was drawn. *now*: with the tests that were written for those that were not. *equal*: no mistake.
"""


def copy_tree(folder: Path) -> Path:
    """Copy what git has or would have of this checkout, compiled such that a changed file is read anew."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.rstrip("\0").split("\0"):
        if os.path.lexists(ROOT / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    compile_ = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash"]
    subprocess.run([*compile_, folder / "generator", folder / "runtime"], check=True)
    return folder


def drawn(tree: Path, seed: str, package: str) -> list[Mutant]:
    """Return the mutants of a seed: the first by a hash, so that other lines that change draw no others."""

    def place(mutant: Mutant) -> bytes:
        return hashlib.sha256(repr((seed, *mutant.key)).encode()).digest()

    return sorted(every(tree, package), key=place)[:DRAWN]


def every(tree: Path, package: str) -> Iterator[Mutant]:
    """Yield the mutants of a package."""
    for path in sorted((tree / PACKAGES[package][0]).rglob("*.py")):
        yield from mutants(str(path.relative_to(tree)), path.read_text())


@dataclass
class Trial:
    """A copy of the checkout, in which one mutant after the other stands."""

    tree: Path
    seconds: dict[str, float] = field(
        default_factory=dict
    )  # of the CPU, of each test file that passed
    broken: set[str] = field(default_factory=set)  # tests that fail without a mutant

    def notice(self, package: str, mutant: Mutant) -> str:
        """Return the test that notices a mutant, "" where none does."""
        file = self.tree / mutant.path
        files = nearest(self.tree, file, PACKAGES[package][1])
        tests = [str(path.relative_to(self.tree)) for path in files]
        tests.sort(key=lambda test: (self.tree / test).stat().st_size)
        tests.sort(key=lambda test: (files[self.tree / test], self.seconds.get(test, 0)))
        left = MOST
        for test in tests:
            if left < 1:
                break
            found, spent = self._run(mutant, test, left)
            left -= spent
            if found:
                return found
            self.seconds[test] = max(spent, self.seconds.get(test, 0))
        return ""

    def _run(self, mutant: Mutant, test: str, left: float) -> tuple[str, float]:
        """Return the test of a file that fails for the mutant, and not without it, and the seconds."""
        while True:
            file = self.tree / mutant.path
            before = file.read_text()
            file.write_text(mutant.source)
            try:
                skipped = [f"--deselect={one}" for one in self.broken]
                found, spent = run(self.tree, [test, *skipped], left)
            finally:
                file.write_text(before)
            if not found or not run(self.tree, [found if "::" in found else test], MOST)[0]:
                return found, spent
            if "::" not in found:
                raise SystemExit(f"{test} fails without a mutant")
            self.broken.add(found)


def main(arguments: list[str]) -> None:
    """Run what is not recorded of a seed, a mutant of each package in turn, and write the page."""
    seed, *packages = arguments or ["1"]
    tree = copy_tree(Path(tempfile.mkdtemp(prefix="mutants-")))
    prepare(tree)
    trial = Trial(tree)
    choose = unnoticed if seed == "again" else partial(missing, seed=seed)
    queues = [[(package, x) for x in choose(tree, package)] for package in packages or PACKAGES]
    try:
        for package, mutant in filter(None, chain.from_iterable(zip_longest(*queues))):
            began = time.monotonic()
            test = trial.notice(package, mutant)
            record(seed, package, mutant, test)
            took = f"{time.monotonic() - began:3.0f} s"
            place = f"{mutant.path}:{mutant.line}"
            print(took, test or "NOT NOTICED", place, mutant.was, "->", mutant.now, flush=True)
    finally:
        shutil.rmtree(tree)
        PAGE.write_text(page(read()))


def missing(tree: Path, package: str, seed: str) -> list[Mutant]:
    """Return the mutants of a seed that are not recorded."""
    had = {key(r) for r in read() if (r["seed"], r["package"]) == (seed, package)}
    chosen = [mutant for mutant in drawn(tree, seed, package) if mutant.key not in had]
    return chosen[: DRAWN - len(had)]


def unnoticed(tree: Path, package: str) -> list[Mutant]:
    """Return the recorded mutants of a package that no test has noticed yet, and that are not equal."""
    keys = {key(r) for r in read() if not (r["noticed"] or r.get("by") or r.get("equal"))}
    return [mutant for mutant in every(tree, package) if mutant.key in keys]


def record(seed: str, package: str, mutant: Mutant, test: str) -> None:
    """Add a mutant to what is recorded, or the test that notices it by now."""
    if seed != "again":
        own = {"seed": seed, "package": package, **vars(mutant), "noticed": test}
        del own["source"]
        with RECORDED.open("a") as file:
            file.write(json.dumps(own) + "\n")
        return
    records = read()
    for one in records:
        if key(one) == mutant.key and not one["noticed"]:
            one["by"] = test
    RECORDED.write_text("".join(json.dumps(one) + "\n" for one in records))


def key(record: dict[str, Any]) -> tuple[str, str, str, int]:
    """Return the key of a mutant's record."""
    return record["path"], record["was"], record["now"], record["nth"]


def read() -> list[dict[str, Any]]:
    """Return what is recorded."""
    return (
        [json.loads(line) for line in RECORDED.read_text().splitlines()]
        if RECORDED.exists()
        else []
    )


def page(records: list[dict[str, Any]]) -> str:
    """Return the table, and what became of each mutant that was not noticed."""
    lines = [
        INTRODUCTION,
        "| package | seed | mutants | noticed | now | equal |",
        "|---|---|---|---|---|---|",
    ]
    for seed in sorted({record["seed"] for record in records}):
        for package in PACKAGES:
            its = [r for r in records if (r["seed"], r["package"]) == (seed, package)]
            if its:
                first = sum(bool(r["noticed"]) for r in its)
                equal = sum(bool(r.get("equal")) for r in its)
                now = sum(bool(r["noticed"] or r.get("by")) for r in its)
                lines.append(f"| {package} | {seed} | {len(its)} | {first} | {now} | {equal} |")
    lines += ["", "## Not noticed as they were drawn", "", "| mutant | now |", "|---|---|"]
    for record in records:
        if not record["noticed"]:
            was, now = (f"`{record[k]}`".replace("|", "\\|") for k in ("was", "now"))
            place = f"{record['path'].split('/', 1)[1]}:{record['line']}"
            became = record.get("by") or (
                f"equal: {record['equal']}" if record.get("equal") else ""
            )
            lines.append(f"| {place}<br>{was}<br>{now} | {became} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    os.nice(10)
    main(sys.argv[1:])
