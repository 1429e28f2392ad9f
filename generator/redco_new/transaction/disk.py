"""What lies at a path, and writing it so that it outlasts a loss of power."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redco_new.errors import RedcoError
from redco_new.project.manifest import sha256

FOLDER = "folder"
OTHER = "other"  # a link, a pipe, a device


def look(path: Path) -> str | None:
    """What lies at `path`: the sha256 of a file, FOLDER, OTHER, or None for nothing."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISDIR(mode):
        return FOLDER
    return sha256(path.read_bytes()) if stat.S_ISREG(mode) else OTHER


def copy_rights(source: Path, target: Path) -> None:
    """Give `target` the mode and, where that is allowed, the owner of `source`."""
    wanted, has = os.stat(source), os.stat(target)
    if (wanted.st_uid, wanted.st_gid) != (has.st_uid, has.st_gid):
        try:
            os.chown(target, wanted.st_uid, wanted.st_gid)
        except PermissionError:
            pass  # somebody else's file in a shared folder: it becomes that of who replaces it
    os.chmod(target, stat.S_IMODE(wanted.st_mode))  # last: a change of owner clears some bits


def sync(path: Path) -> None:
    """Wait until the file or folder `path` is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def told(where: str, what: str) -> Iterator[None]:
    """Tell an OSError as a RedcoError. what: a text that says {why}."""
    try:
        yield
    except OSError as error:
        why = what.format(why=error.strerror or error)
        raise RedcoError(where, why, "mend that and run it again") from error
