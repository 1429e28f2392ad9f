"""What people made of git's conflicts, as a table: how many hold all that both sides changed.

A merge that loses nothing and writes nothing of its own can be theirs in these alone. In each place
that git has in conflict the words are counted, without layout: what one side left alone is to be there as often as the
other has it, what both changed as often as either or both make it. A file is what its worst place is.
A version that both sides raised can be theirs as well: the higher one.
"""

import json
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

from histories import Objects

KINDS = {
    "all": "all that both sides changed is there",
    "version": "so it is, but for a version that both raised: the higher",
    "one": "one side as it is, and a change of the other's is lost",
    "some": "a change of one side is lost, or what it deleted is back",
    "new": "words that neither side has there",
}
WORST = ("new", "some", "one", "version", "all")
VERSION = re.compile(r"""^\s*(?:__)?version(?:__)?\s*=\s*['"]v?(\d[^'"]*)['"],?\s*$""")


class Place(NamedTuple):
    """Lines that both sides changed.

    start, stop: of ours, in the file that has ours in each such place.
    """

    base: list[str]
    ours: list[str]
    theirs: list[str]
    start: int
    stop: int


def places(sides: tuple[bytes, bytes, bytes]) -> tuple[list[str], list[Place]]:
    """The file with ours in each place where git has a conflict, and these places."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("base", "ours", "theirs")]
        for path, side in zip(paths, sides, strict=True):
            path.write_bytes(side)
        base, ours, theirs = paths
        command = ["git", "merge-file", "-p", "--diff3", ours, base, theirs]
        run = subprocess.run(command, capture_output=True, check=False)
    merged: list[str] = []
    of_git: list[Place] = []
    where, parts, start = "", {}, 0
    for line in run.stdout.decode("utf-8", "replace").splitlines():
        mark = line[:7]
        if not where and mark == "<<<<<<<":
            where, parts, start = "ours", {"base": [], "ours": [], "theirs": []}, len(merged)
        elif where == "ours" and mark == "|||||||":
            where = "base"
        elif where == "base" and mark == "=======":
            where = "theirs"
        elif where == "theirs" and mark == ">>>>>>>":
            where = ""
            of_git.append(Place(**parts, start=start, stop=len(merged)))
        else:
            if where:
                parts[where].append(line)
            if where in ("", "ours"):
                merged.append(line)
    return merged, of_git


def kinds(sides: tuple[bytes, bytes, bytes], people: bytes) -> Iterator[str]:
    """What people made of each place where git has a conflict."""
    merged, of_git = places(sides)
    lines = people.decode("utf-8", "replace").splitlines()
    blocks = SequenceMatcher(None, merged, lines, autojunk=False).get_matching_blocks()
    at = {a + i: b + i for a, b, size in blocks for i in range(size)}
    for place in of_git:
        above = next((at[i] + 1 for i in reversed(range(place.start)) if i in at), 0)
        below = next((at[i] for i in range(place.stop, len(merged)) if i in at), len(lines))
        yield kind(place, lines[above:below])


def kind(place: Place, people: list[str]) -> str:
    higher = with_higher_version(place, people)
    if higher != place:
        return "version" if kind_of_words(higher, people) == "all" else kind_of_words(place, people)
    return kind_of_words(place, people)


def with_higher_version(place: Place, people: list[str]) -> Place:
    """The place with the same line of a version on both sides, where both raised it and people took the higher."""
    mine, other = ([x for x in side if VERSION.match(x)] for side in (place.ours, place.theirs))
    if len(mine) != 1 or len(other) != 1 or mine == other or {*mine, *other} & {*place.base}:
        return place
    higher = max(*mine, *other, key=release)
    if higher.strip() not in [x.strip() for x in people]:
        return place
    ours, theirs = (
        [higher if VERSION.match(x) else x for x in side] for side in (place.ours, place.theirs)
    )
    return place._replace(ours=ours, theirs=theirs)


def release(line: str) -> list[int]:
    """The numbers of a version before its first letter."""
    version = VERSION.match(line)[1]
    return [int(x) for x in re.findall(r"\d+", re.split(r"[a-z-]", version)[0])]


def kind_of_words(place: Place, people: list[str]) -> str:
    b, o, t, p = (words(x) for x in (place.base, place.ours, place.theirs, people))
    if Counter(p).keys() - {*b, *o, *t}:
        return "new"
    counts = [Counter(x) for x in (b, o, t, p)]
    if all(in_bounds(*(count[word] for count in counts)) for word in {*b, *o, *t}):
        return "all"
    return "one" if p in (o, t) else "some"


def words(lines: list[str]) -> list[str]:
    return re.findall(r"\w+|[^\w\s,;()\"'\\]", "\n".join(lines))


def in_bounds(base: int, ours: int, theirs: int, people: int) -> bool:
    both = ours + theirs - base
    bounds = (both,) if base in (ours, theirs) else (ours, theirs, both)
    return min(bounds) <= people <= max(bounds)


def conflicts(repos: Iterable[Path], out: Path, label: str) -> str:
    """The table of git's conflicts among the results of a replay."""
    counts: Counter[tuple[str, str]] = Counter()
    for repo in repos:
        name = repo.parent.name if repo.name == "repo" else repo.name.removesuffix(".git")
        results = map(json.loads, (out / f"{name}.{label}.jsonl").read_text().splitlines())
        with Objects(repo) as objects:
            for x in results:
                if x.get("git") == "conflict":
                    base, ours, theirs, people = (
                        objects.read(x[key]) or b"" for key in ("base", "ours", "theirs", "people")
                    )
                    every = set(kinds((base, ours, theirs), people))
                    counts[next(k for k in WORST if k in every), x["verdict"]] += 1
    verdicts = ("match", "order", "conflict", "differ")
    lines = ["| people committed | files | ours: match | order | conflict | differ |"]
    lines += ["| --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, about in KINDS.items():
        cells = [counts[name, verdict] for verdict in verdicts]
        lines.append(f"| {about} | {sum(cells)} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)
