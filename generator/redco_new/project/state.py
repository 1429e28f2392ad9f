"""A project as it is: what redco remembers of it, and what its files hold now."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from redco_new.errors import RedcoError
from redco_new.project.manifest import Manifest
from redco_new.project.records import Records, read_records
from redco_new.transaction import MANIFEST, locate


@dataclass(frozen=True)
class ProjectState:
    """What redco remembers of a project, and its files, each read once.

    root: the project's folder.
    records: what redco remembers.
    """

    root: Path
    records: Records
    _contents: dict[str, bytes | None] = field(default_factory=dict)

    @property
    def manifest(self) -> Manifest:
        """The manifest, as read."""
        return self.records.manifest

    def ours(self, path: str) -> bytes | None:
        """Return what the user's file `path` held when first read; None where there is none."""
        if path not in self._contents:
            self._contents[path] = read_file(self.root, path)
        return self._contents[path]

    def base(self, path: str) -> bytes | None:
        """Return what redco wrote to `path`; None if nothing."""
        return self.records.base.get(path)


def read_project_state(root: Path) -> ProjectState:
    """Return the project `root` as it is now. Raises RedcoError if it is none, or damaged."""
    return ProjectState(root, read_records(root))


def read_file(root: Path, path: str) -> bytes | None:
    """Return what a file of a project holds; None where there is none. Raises RedcoError."""
    try:
        return (root / locate(root, path)).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        todo = "mend that and run it again"
        raise RedcoError(path, f"cannot be read: {error.strerror}", todo) from error


def find_root(start: Path) -> Path:
    """Return the project that the folder `start` is in. Raises RedcoError if it is in none."""
    try:
        for folder in (start, *Path(os.path.abspath(start)).parents):
            if (folder / MANIFEST).is_file():
                return folder
    except OSError as error:  # no rights, or the working folder is gone
        where = error.filename or start
        what = f"cannot be read: {error.strerror}"
        raise RedcoError(
            str(where), what, "give the folder of a project that you may read"
        ) from error
    what = "is not in a redco project: no .redco/manifest.json, here or above"
    raise RedcoError(str(start), what, "give the folder of a project that redco-new made")


def path_in_project(root: Path, argument: str) -> str:
    """Return a path, or PATH::SYMBOL, of the working folder as one that is relative to `root`."""
    path, *symbol = argument.split("::", 1)
    return "::".join([Path(os.path.relpath(path or ".", root)).as_posix(), *symbol])


def path_from_here(root: Path, path: str) -> str:
    """Return a path that is relative to the project `root` as one of the working folder."""
    return os.path.relpath(root / path)
