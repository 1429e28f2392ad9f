"""The results of a replay as a table."""

import json
import statistics
from collections.abc import Iterable
from pathlib import Path

HEAD = """\
What our merge, and `git merge-file`, make of files that both parents of a merge changed; match: the syntax tree that people
committed, but for the order of imports or definitions, which the last column counts. verdicts.py has the rules, by which the last column of
the second table says what differs. "git right, ours not" has the files that git merges to what people committed, and we do not. Times are of one processor, on a machine that was busy with other work.

| project | files | ours: match | conflict | differ | git: match | conflict | differ | git right, ours not | \
git's conflicts: right | differ | wrong | ms: median | worst | but for an order |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""


def table(paths: Iterable[Path]) -> str:
    """A row a project, and one of all."""
    results = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    results = [x for x in results if x["verdict"] != "skipped"]
    names = sorted({x["project"] for x in results})
    rows = [row(name, [x for x in results if x["project"] == name]) for name in names]
    return "\n".join([HEAD, *rows, row("**all**", results), "", *differences(results)])


def row(name: str, results: list[dict]) -> str:
    def count(**wanted: str) -> int:
        return sum(all(x[k] == v for k, v in wanted.items()) for x in results)

    cells = [len(results)]
    orders = count(verdict="order")
    cells += [count(verdict="match") + orders, count(verdict="conflict"), count(verdict="differ")]
    cells += [count(git=x) for x in ("match", "conflict", "differ")]
    cells += [count(git="match") - count(git="match", verdict="match")]
    right = sum(count(git="conflict", verdict=x) for x in ("match", "order"))
    cells += [right, count(git="conflict", verdict="differ")]
    cells += [count(why="wrong")]
    times = sorted(1000 * x["seconds"] for x in results) or [0]
    cells += [round(statistics.median(times)), round(times[-1]), orders]
    return f"| {' | '.join(map(str, [name.replace('+', '/'), *cells]))} |"


def differences(results: list[dict]) -> list[str]:
    """A line for each merge that is not what people committed, and not git's clean merge."""
    chosen = [x for x in results if x["verdict"] == "differ"]
    heads = ["| project | merge | file | git | differs in |", "| --- | --- | --- | --- | --- |"]
    lines = [
        f"| {x['project'].replace('+', '/')} | {x['merge'][:10]} | {x['path']} | {x['git']} | {x['why']} |"
        for x in chosen
    ]
    return heads + lines
