"""A project as it is: what redco remembers of it, and what its files hold now."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from redco_new.errors import RedcoError
from redco_new.project.manifest import BASE, BASE_SUFFIX, Manifest, base_path, read_manifest
from redco_new.transaction import MANIFEST, locate, sha256


@dataclass(frozen=True)
class ProjectState:
    """What redco remembers of a project, and its files, each read once.

    root: the project's folder.
    manifest: as read.
    manifest_bytes: the content of its file.
    copies: path -> what lies in the place of the pristine copy of that file, None for nothing; also
        of files that the manifest has not.
    """

    root: Path
    manifest: Manifest
    manifest_bytes: bytes
    copies: Mapping[str, bytes | None]
    _contents: dict[str, bytes | None] = field(default_factory=dict)

    def ours(self, path: str) -> bytes | None:
        """Return what the user's file `path` held when first read; None where there is none."""
        if path not in self._contents:
            self._contents[path] = read_file(self.root, path)
        return self._contents[path]

    @property
    def damaged_paths(self) -> list[str]:
        """The files of which the pristine copy is gone, or is something else."""
        return [path for path in self.manifest.files if self.pristine(path) is None]

    def pristine(self, path: str) -> bytes | None:
        """Return the copy of what redco wrote to `path`; None where it is gone or another."""
        copy = self.copies.get(path)
        intact = copy is not None and sha256(copy) == self.manifest.files.get(path)
        return copy if intact else None

    def base(self, path: str, theirs: bytes | None) -> bytes | None:
        """Return what redco wrote to `path`: None if nothing, b"" where nobody can know any more.

        theirs: what it would write now, which is compared if the copy is damaged.
        """
        if path not in self.manifest.files:
            return None
        if (copy := self.pristine(path)) is not None:
            return copy
        digest = self.manifest.files[path]
        candidates = (x for x in (self.ours(path), theirs) if x is not None)
        return next((x for x in candidates if sha256(x) == digest), b"")


def read_project_state(root: Path) -> ProjectState:
    """Return the project `root` as it is now. Raises RedcoError if it is none, or damaged."""
    manifest = read_manifest(root)
    paths = sorted({*manifest.files, *_paths_with_copies(root)})
    copies = {path: read_file(root, base_path(path)) for path in paths}
    return ProjectState(root, manifest, (root / MANIFEST).read_bytes(), copies)


def _paths_with_copies(root: Path) -> list[str]:
    """Return the files that have a copy, also those that the manifest of another branch lacks."""
    files = (x for x in (root / BASE).rglob(f"*{BASE_SUFFIX}") if x.is_file())
    return [x.relative_to(root / BASE).as_posix().removesuffix(BASE_SUFFIX) for x in files]


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
