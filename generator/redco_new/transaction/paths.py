"""Which file a path means, and which files no path may mean."""

import os
from pathlib import Path, PurePosixPath

from redco_new.errors import RedcoError

REDCO = ".redco"
LOCK = ".redco/lock"
STAGING = ".redco/staging"


def locate(root: Path, path: str) -> str:
    """Where the file `path` of the project `root` lies once links are followed.

    path and the result are '/'-separated and relative to `root`.  Raises RedcoError if that is not
    a place inside the project, or if it is git's or the transaction's own.
    """
    pure = PurePosixPath(path)
    if not path.isprintable() or str(pure) != path or pure.is_absolute() or ".." in pure.parts:
        raise _refused(repr(path), "is not a plain path inside the project")
    base = Path(os.path.realpath(root))
    real = Path(os.path.realpath(base / pure))
    if base not in real.parents:
        raise _refused(path, f"leads to {real}, outside the project")
    if os.path.islink(real):
        raise _refused(path, "is a link that leads to itself")
    place = real.relative_to(base)
    own = {LOCK, STAGING} & {p.as_posix().lower() for p in (place, *place.parents)}
    if own or ".git" in (part.lower() for part in place.parts):
        raise _refused(path, "is not a file of the project's own")
    return place.as_posix()


def check_project(root: Path) -> None:
    """Raise RedcoError unless `root` has a folder .redco, and not a link in its place."""
    if os.path.islink(root / REDCO) or not os.path.isdir(root / REDCO):
        what = f"is not a redco project: it has no folder {REDCO}"
        raise RedcoError(str(root), what, "give the folder of a project that redco-new made")


def parents(place: str) -> list[str]:
    """The folders around `place`, the innermost first, without the project's own."""
    return [folder.as_posix() for folder in PurePosixPath(place).parents][:-1]


def _refused(path: str, what: str) -> RedcoError:
    return RedcoError(path, f"{what}, and nothing was written", "correct what names this path")
