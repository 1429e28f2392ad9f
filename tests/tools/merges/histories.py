"""The merges of a git history: the four versions of each Python file that both parents changed."""

import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

MOST_OF_ONE_MERGE = 5  # files: one merge of a year's work would else be a whole sample


class Case(NamedTuple):
    """One file of one merge.

    merge: the commit's hash.
    path: of the file, in all four versions.
    base: the object of the file at the merge base, and so on.
    """

    merge: str
    path: str
    base: str
    ours: str
    theirs: str
    people: str


@dataclass
class Skipped:
    """How many merges or files are no cases.

    octopus: merges of other than two parents.
    bases: merges that have no base, or several.
    gone: files that the merge moved or deleted.
    """

    octopus: int = 0
    bases: int = 0
    gone: int = 0


def git(repo: Path, *command: str) -> str:
    run = subprocess.run(["git", "-C", repo, *command], capture_output=True, check=False)
    return run.stdout.decode("utf-8", "replace")


def cases(repo: Path, seed: int, skipped: Skipped) -> Iterator[Case]:
    """Yield the cases of a history, its merges in an order drawn from `seed`."""
    merges = git(repo, "rev-list", "--merges", "--parents", "--all").splitlines()
    random.Random(seed).shuffle(merges)
    for line in merges:
        merge, *parents = line.split()
        if len(parents) != 2:
            skipped.octopus += 1
            continue
        bases = git(repo, "merge-base", "--all", *parents).split()
        if len(bases) != 1:
            skipped.bases += 1
        elif bases[0] not in parents:
            yield from of_merge(repo, merge, parents, bases[0], skipped)


def of_merge(
    repo: Path, merge: str, parents: list[str], base: str, skipped: Skipped
) -> Iterator[Case]:
    mine, other = (changed(repo, base, parent) for parent in parents)
    both = sorted(x for x in mine.keys() & other.keys() if mine[x][1] != other[x][1])
    for path in both[:MOST_OF_ONE_MERGE]:
        people = git(repo, "rev-parse", "--verify", "--quiet", f"{merge}:{path}").strip()
        if people:
            yield Case(merge, path, mine[path][0], mine[path][1], other[path][1], people)
        else:
            skipped.gone += 1


def changed(repo: Path, before: str, after: str) -> dict[str, tuple[str, str]]:
    """Path -> (object before, object after) of the Python files that changed in place."""
    command = ("diff-tree", "-r", "-z", "--no-renames", "--diff-filter=M", before, after)
    fields = git(repo, *command, "--", "*.py").split("\0")
    pairs = zip(fields[::2], fields[1::2], strict=False)
    return {path: (about.split()[2], about.split()[3]) for about, path in pairs if about}


class Objects:
    """The objects of a repository, read by one process."""

    def __init__(self, repo: Path):
        command = ["git", "-C", str(repo), "cat-file", "--batch"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> "Objects":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.process.communicate()

    def read(self, name: str) -> bytes | None:
        """Read an object; None where the snapshot lacks it."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin and stdout
        stdin.write(name.encode() + b"\n")
        stdin.flush()
        about = stdout.readline().split()
        if about[1:2] != [b"blob"]:
            return None
        content = stdout.read(int(about[2]))
        stdout.read(1)
        return content
