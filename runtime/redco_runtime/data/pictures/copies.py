"""Pictures that are there twice: which classes they are of, and whether they are learned from and scored."""

import hashlib
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import jax

from ...base.messages import announce_training, few

SECONDS = 5.0  # at most: of files on a disk of its own, some tens of thousands


def say_copies(pictures: Sequence[Any], labels: Sequence[int], held_out: Collection[int]) -> None:
    """Print how many files hold the same as another one, of as many as are looked at in SECONDS.

    pictures: paths, and arrays, which are passed over. labels: of each. held_out: indices of those that are.
    """
    if jax.process_index():
        return
    paths = {i: path for i, path in enumerate(pictures) if isinstance(path, Path)}
    groups, looked = find_copies(paths)
    if not groups:
        return
    apart, scored = {*held_out}, 0
    for group in groups:
        scored += len(apart & {*group}) if {*group} - apart else 0
    unlike = sum(len({labels[i] for i in group}) > 1 for group in groups)
    count = sum(len(group) - 1 for group in groups)
    parts = [
        f"data: {count:,} pictures are copies of others",
        f"; {unlike:,} of more than one class" if unlike else "",
        f"; {scored:,} of those that are held out are trained on too" if scored else "",
        f" (of {looked:,} that were looked at in {SECONDS:.0f} s)" if looked < len(paths) else "",
    ]
    announce_training("".join(parts) + f": {few((paths[i] for i in groups[0]), 3)}")


def find_copies(paths: dict[int, Path]) -> tuple[list[list[int]], int]:
    """Return (the keys of files that hold the same, how many files there was time for).

    A file is read where another has its size.
    """
    deadline = time.monotonic() + SECONDS
    sizes, contents = defaultdict[int, list[int]](list), defaultdict[str, list[int]](list)
    looked = 0
    for i, path in paths.items():
        if time.monotonic() > deadline - SECONDS / 2:
            break
        sizes[path.stat().st_size].append(i)
        looked += 1
    for group in sizes.values():
        if len(group) < 2:
            continue
        if time.monotonic() > deadline:
            looked -= len(group)
            continue
        for i in group:
            contents[hashlib.sha256(paths[i].read_bytes()).hexdigest()].append(i)
    return [group for group in contents.values() if len(group) > 1], looked
