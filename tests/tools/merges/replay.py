"""Replay the merges of real histories, and compare with what people committed.

    python tests/tools/merges/replay.py run --cases 100 /path/to/flask.git /path/to/httpx.git
    python tests/tools/merges/replay.py table > tests/tools/merges/RESULTS.md
    python tests/tools/merges/replay.py conflicts /path/to/flask.git /path/to/httpx.git

`make table NAME=merges ROWS="/path/to/flask.git /path/to/httpx.git"` is run and table in one. `run` takes bare repositories; a case is a Python file that both parents of a merge changed. It goes
on where it was stopped: the results lie in .histories (--out), a line of JSON a case.
"""

import argparse
import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from conflicts import conflicts
from histories import Case, Objects, Skipped, cases
from table import table
from verdicts import tree_of, verdict, why

from redco_merge import Conflict, MergeResult, merge

OUT = Path(__file__).parent / ".histories"


class TooLong(KeyboardInterrupt):
    """A merge takes longer than --limit; `merge` lets interrupts through."""


def in_time(seconds: float, sides: tuple[bytes, bytes, bytes]) -> tuple[MergeResult, float]:
    """Our merge, and the seconds of a processor that it took."""

    def stop(*_: object) -> None:
        raise TooLong

    signal.signal(signal.SIGALRM, stop)
    start = time.process_time()
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        merged = merge(*sides, owned=())
    except TooLong:
        merged = MergeResult(sides[1], [Conflict("<time>", "", "no merge in time")])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return merged, time.process_time() - start


def merged_by_git(sides: tuple[bytes, bytes, bytes]) -> MergeResult:
    """What `git merge-file` makes of three files."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("base", "ours", "theirs")]
        for path, side in zip(paths, sides, strict=True):
            path.write_bytes(side)
        base, ours, theirs = paths
        run = subprocess.run(
            ["git", "merge-file", "-p", ours, base, theirs], capture_output=True, check=False
        )
    conflicts = [Conflict("<git>", "", "")] if run.returncode else []
    return MergeResult(run.stdout, conflicts)


def replayed(case: Case, objects: Objects, limit: float) -> dict[str, object] | None:
    """What becomes of a case; None where a version is missing or is no Python of today."""
    contents = [objects.read(x) for x in (case.base, case.ours, case.theirs, case.people)]
    base, ours, theirs, people = (x or b"" for x in contents)
    if not all(contents) or not all(tree_of(x) for x in (base, ours, theirs, people)):
        return None
    sides = base, ours, theirs
    git = merged_by_git(sides)
    mine, seconds = in_time(limit, sides)
    result = {"verdict": verdict(mine, people), "git": verdict(git, people), "why": ""}
    if result["verdict"] == "differ":
        result["why"] = why(sides, mine.content, people, None if git.conflicts else git.content)
    return (
        case._asdict()
        | result
        | {
            "exact": mine.content == people,
            "as git": mine.content == git.content,
            "seconds": round(seconds, 4),
            "lines": ours.count(b"\n"),
            "conflicts": [f"{x.symbol}: {x.reason}" for x in mine.conflicts],
        }
    )


def wanted(repo: Path, number: int, seed: int, cache: Path) -> Iterator[Case]:
    """The first cases of a history; looked for once, for they take longer than their merges."""
    if not cache.exists() or json.loads(cache.read_text())["wanted"] < number:
        skipped = Skipped()
        drawn = list(islice(cases(repo, seed, skipped), number))
        about = {"wanted": number, "skipped": asdict(skipped), "cases": drawn}
        cache.write_text(json.dumps(about))
    yield from (Case(*x) for x in json.loads(cache.read_text())["cases"][:number])


def run(repo: Path, args: argparse.Namespace) -> None:
    """Replay a history, but for the cases that are done."""
    name = repo.parent.name if repo.name == "repo" else repo.name.removesuffix(".git")
    args.out.mkdir(exist_ok=True)
    results = args.out / f"{name}.{args.label}.jsonl"
    lines = results.read_text().splitlines() if results.exists() else []
    done = {(x["merge"], x["path"]) for x in map(json.loads, lines)}
    cache = args.out / f"{name}.{args.seed}.cases.json"
    with Objects(repo) as objects, results.open("a") as out:
        for case in wanted(repo, args.cases, args.seed, cache):
            if (case.merge, case.path) in done:
                continue
            result = replayed(case, objects, args.limit)
            result = result or {"merge": case.merge, "path": case.path, "verdict": "skipped"}
            print(json.dumps({"project": name} | result), file=out, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["run", "table", "conflicts"])
    parser.add_argument("repos", nargs="*", type=Path, help="bare repositories")
    parser.add_argument("--cases", type=int, default=100, help="of each project")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the merges")
    parser.add_argument("--limit", type=float, default=30, help="seconds of one merge")
    parser.add_argument("--label", default="now", help="of these results, among others")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_intermixed_args()
    if args.what in ("run", "table"):
        for repo in args.repos:
            run(repo, args)
    if args.what == "table":
        print(table(sorted(args.out.glob(f"*.{args.label}.jsonl"))))
    elif args.what == "conflicts":
        print(conflicts(args.repos, args.out, args.label))


if __name__ == "__main__":
    main()
