"""Broken pictures, looked for before a run begins: by their first and last bytes, for a few seconds."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ...base.messages import UserError, first, listed, print_once

SECONDS = 5.0  # at most: of JPEGs on a disk of its own, 50,000
THREADS = 16  # a file far away takes milliseconds, and pillow does not hold Python meanwhile
ENDS = {".png": b"IEND\xaeB`\x82", ".jpg": b"\xff\xd9", ".jpeg": b"\xff\xd9"}  # of a whole file
MEND = "mend it, or leave it out"
TAIL = 64  # bytes that are searched for them: some programs write a few behind


def check_pictures(
    pictures: Sequence[Any], read: Callable[[Path], object], flag: str = "--image-folder"
) -> None:
    """Raise UserError, which names all that cannot be read, of as many files as are looked at in SECONDS.

    pictures: paths, and arrays, which are passed over.
    read: reads one whole, or raises UserError; called for files that do not look whole.
    flag: what names them.
    """
    paths = [one for one in pictures if isinstance(one, Path)]
    order = np.random.default_rng(0).permutation(len(paths)).tolist()
    deadline = time.monotonic() + SECONDS
    parts = [[paths[i] for i in order[worker::THREADS]] for worker in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        looks = [pool.submit(_look_at, part, read, deadline) for part in parts if part]
        results = [look.result() for look in looks]
    count, faults = sum(n for n, _ in results), sorted(x for _, part in results for x in part)
    if count < len(paths):
        print_once(
            f"data: {count:,} of {len(paths):,} pictures looked at in {SECONDS:.0f} s; one of the others that is broken "
            "ends the run where it is read"
        )
    if faults:
        title = f"{flag}: {len(faults)} of its pictures cannot be used:"
        raise UserError(listed(title, first(faults), "Mend them, or leave them out."))


def _look_at(
    paths: Sequence[Path], read: Callable[[Path], object], deadline: float
) -> tuple[int, list[str]]:
    """Return how many files there was time for, and what is wrong with some."""
    faults: list[str] = []
    for count, path in enumerate(paths):
        if time.monotonic() > deadline:
            return count, faults
        if not _looks_whole(path):
            try:
                read(path)
            except UserError as error:
                faults.append(str(error).removesuffix(f": {MEND}"))
    return len(paths), faults


def _looks_whole(path: Path) -> bool:
    """Return whether the first and last bytes of a file are those of a picture; an array is to be read."""
    from PIL import Image  # late: few read files

    end = ENDS.get(path.suffix.lower())
    if end is None:
        return False
    try:
        with open(path, "rb") as file:
            with Image.open(file):
                pass
            file.seek(max(0, path.stat().st_size - TAIL))
            return end in file.read()
    except Exception:  # each decoder has its own
        return False
