"""Which file a path means, what lies there, and writing it so that it outlasts a loss of power."""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from redco_new.errors import RedcoError

REDCO = ".redco"
LOCK = ".redco/lock"
STAGING = ".redco/staging"
MANIFEST = ".redco/manifest.json"  # written last: until then, the one of before tells what is there

FOLDER = "folder"
OTHER = "other"  # a link, a pipe, a device


def locate(root: Path, path: str) -> str:
    """Return where the file `path` of the project `root` lies once links are followed.

    path and the result are '/'-separated and relative to `root`.  Raises RedcoError if that is not
    a place inside the project, or if it is git's or the transaction's own.
    """
    pure = PurePosixPath(path)
    if not path.isprintable() or str(pure) != path or pure.is_absolute() or ".." in pure.parts:
        raise _bad_path(repr(path), "is not a plain path inside the project")
    base = Path(os.path.realpath(root))
    real = Path(os.path.realpath(base / pure))
    if base not in real.parents:
        raise _bad_path(path, f"leads to {real}, outside the project")
    if os.path.islink(real):
        raise _bad_path(path, "is a link that leads to itself")
    inner = real.relative_to(base)
    own = {LOCK, STAGING} & {p.as_posix().lower() for p in (inner, *inner.parents)}
    if own or ".git" in (part.lower() for part in inner.parts):
        raise _bad_path(path, "is not a file of the project's own")
    return inner.as_posix()


def _bad_path(path: str, what: str) -> RedcoError:
    return RedcoError(path, f"{what}, and nothing was written", "correct what names this path")


def check_project(root: Path) -> None:
    """Raise RedcoError unless `root` has a folder .redco, and not a link in its place."""
    if os.path.islink(root / REDCO) or not os.path.isdir(root / REDCO):
        what = f"is not a redco project: it has no folder {REDCO}"
        raise RedcoError(str(root), what, "give the folder of a project that redco-new made")


def enclosing_folders(path: str) -> list[str]:
    """Return the folders around `path`, the innermost first, without the project's own."""
    return [folder.as_posix() for folder in PurePosixPath(path).parents][:-1]


def sha256(content: bytes) -> str:
    """Return the hash of a file's content, in hex."""
    return hashlib.sha256(content).hexdigest()


def state_of(path: Path) -> str | None:
    """Return what lies at `path`: the sha256 of a file, FOLDER, OTHER, or None for nothing."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISDIR(mode):
        return FOLDER
    return sha256(path.read_bytes()) if stat.S_ISREG(mode) else OTHER


def copy_rights(source: Path, target: Path) -> None:
    """Give `target` the mode and, where that is allowed, the owner of `source`."""
    wanted, current = os.stat(source), os.stat(target)
    if (wanted.st_uid, wanted.st_gid) != (current.st_uid, current.st_gid):
        try:
            os.chown(target, wanted.st_uid, wanted.st_gid)
        except PermissionError:
            pass  # somebody else's file in a shared folder: it becomes that of who replaces it
    os.chmod(target, stat.S_IMODE(wanted.st_mode))  # last: a change of owner clears some bits


def sync_to_disk(path: Path) -> None:
    """Wait until the file or folder `path` is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def os_errors_named(where: str, what: str) -> Iterator[None]:
    """Raise an OSError of the block as a RedcoError at `where`. what: a text that says {why}."""
    try:
        yield
    except OSError as error:
        why = what.format(why=error.strerror or error)
        raise RedcoError(where, why, "mend that and run it again") from error
