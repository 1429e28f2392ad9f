"""Merge random files, and modules of the standard library, edited at random on both sides.

    python tests/tools/merges/measure.py --triples 10000 --modules 300

Prints how many merges lost something, broke something, kept a file whole, or told of a conflict.
Exit code 1 if anything was lost or broken.
"""

import argparse
import random
import sysconfig
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from merge.edits import EDITS, edited, parses
from merge.oracle import whole, wrong
from merge.triples import TEMPLATE, Triple, apart, lines_apart, triple

from redco_merge import merge


def triples(count: int, seed: int) -> Iterator[tuple[str, Triple]]:
    """Of small files: half edited anywhere, a quarter in different symbols, one in different lines."""
    for i in range(count):
        make = (triple, apart, triple, lines_apart)[i % 4]
        yield make.__name__, make(random.Random(f"{seed} {i}").randrange)


def modules(count: int, seed: int) -> Iterator[tuple[str, Triple]]:
    """Of the standard library, six edits a side."""
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = [x for x in sorted(root.rglob("*.py")) if not {"test", "site-packages"} & set(x.parts)]
    random.Random(seed).shuffle(paths)
    left = count
    for path in paths:
        pick = random.Random(f"{seed} {path.relative_to(root)}").randrange
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if left and 500 < len(text) < 40_000 and parses(text):
            left -= 1
            ours = edited(text, "user", 6, pick, tuple(EDITS))
            theirs = edited(text, "tmpl", 6, pick, TEMPLATE)
            yield path.name, Triple(text.encode(), ours.encode(), theirs.encode())


def measure(name: str, sides: Iterator[tuple[str, Triple]]) -> int:
    """Print the figures of one kind of file. Returns how many merges went wrong."""
    found: Counter[str] = Counter()
    seconds = 0.0
    for kind, (base, ours, theirs) in sides:
        start = time.perf_counter()
        merged = merge(base, ours, theirs)
        seconds += time.perf_counter() - start
        bad = wrong(base, ours, theirs, merged)
        disjoint = kind in ("apart", "lines_apart")
        found.update(
            merges=1, wrong=bool(bad), whole=whole(merged), conflicts=len(merged.conflicts)
        )
        found["avoidable"] += whole(merged) or (disjoint and bool(merged.conflicts))
        found["with conflict"] += bool(merged.conflicts)
        if bad:
            print(f"{name}, {kind}: {bad[:3]}")
    print(f"{name}: {dict(found)}, {1000 * seconds / max(1, found['merges']):.0f} ms a merge")
    return found["wrong"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--triples", type=int, default=10_000)
    parser.add_argument("--modules", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    bad = measure("triples", triples(args.triples, args.seed))
    bad += measure("modules", modules(args.modules, args.seed))
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
