"""One process at a time: a lock on a project that dies with its process."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from redco_new.errors import RedcoError
from redco_new.transaction.disk import LOCK, check_project, os_errors_named

POLL_SECONDS = 0.05  # soon enough for a person who waits, and next to no work


@contextmanager
def locked(
    root: Path, wait_seconds: float, progress: Callable[[str], None] = lambda step: None
) -> Iterator[None]:
    """Keep other updates of the project `root` out, or wait for the one that keeps us out.

    progress: called once, if there is something to wait for.
    Raises RedcoError if another still has the lock after `wait_seconds`.
    """
    check_project(root)
    with os_errors_named(LOCK, "cannot be opened: {why}"):
        handle = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        _wait(handle, root, wait_seconds, progress)
        yield
    finally:
        os.close(handle)  # which unlocks; the file stays, for to remove it would race


def _wait(handle: int, root: Path, seconds: float, progress: Callable[[str], None]) -> None:
    deadline = time.monotonic() + seconds
    if _try(handle, root):
        return
    if seconds > 0:
        progress(f"waiting for another update of {root}")
    while time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        if _try(handle, root):
            return
    raise RedcoError(str(root), "another update of it is running", "let that end and run it again")


def _try(handle: int, root: Path) -> bool:
    with os_errors_named(str(root), "cannot be locked: {why}"):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
