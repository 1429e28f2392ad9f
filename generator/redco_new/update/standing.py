"""A project as it is: what redco remembers of it, and what its files hold now."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from redco_new.errors import RedcoError
from redco_new.project.manifest import (
    BASE,
    BASE_SUFFIX,
    MANIFEST,
    Manifest,
    base_path,
    read_manifest,
    sha256,
)
from redco_new.transaction.paths import locate


@dataclass(frozen=True)
class Standing:
    """manifest: as read; text: its bytes.  base: path -> what redco wrote, where the copy is intact.

    copies: path -> what lies in the place of that copy, None for nothing; also of files that the
    manifest has not.
    """

    root: Path
    manifest: Manifest
    text: bytes
    copies: Mapping[str, bytes | None]
    _read: dict[str, bytes | None] = field(default_factory=dict)

    def ours(self, path: str) -> bytes | None:
        """What the file `path` held when it was first asked for; None where there is none."""
        if path not in self._read:
            self._read[path] = read_file(self.root, path)
        return self._read[path]

    @property
    def damaged(self) -> list[str]:
        """The files of which the copy of what redco wrote is gone, or is something else."""
        return [path for path in self.manifest.files if not self._intact(path)]

    def base(self, path: str, theirs: bytes | None) -> bytes | None:
        """What redco wrote to `path`, None if nothing; b"" where that cannot be told any more.

        theirs: what it would write now, which is looked at if the copy is damaged.
        """
        if path not in self.manifest.files:
            return None
        if self._intact(path):
            return self.copies[path]
        known = self.manifest.files[path]
        same = (x for x in (self.ours(path), theirs) if x is not None and sha256(x) == known)
        return next(same, b"")

    def _intact(self, path: str) -> bool:
        copy = self.copies[path]
        return copy is not None and sha256(copy) == self.manifest.files[path]


def stand(root: Path) -> Standing:
    """The project `root` as it is now. Raises RedcoError if it is none, or damaged."""
    manifest = read_manifest(root)
    paths = sorted({*manifest.files, *copied(root)})
    copies = {path: read_file(root, base_path(path)) for path in paths}
    return Standing(root, manifest, (root / MANIFEST).read_bytes(), copies)


def copied(root: Path) -> list[str]:
    """The files of which there is a copy, also of those that the manifest, of another branch, has not."""
    files = (x for x in (root / BASE).rglob(f"*{BASE_SUFFIX}") if x.is_file())
    return [x.relative_to(root / BASE).as_posix().removesuffix(BASE_SUFFIX) for x in files]


def read_file(root: Path, path: str) -> bytes | None:
    """What a file of a project holds; None where there is none. Raises RedcoError."""
    try:
        return (root / locate(root, path)).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        todo = "mend that and run it again"
        raise RedcoError(path, f"cannot be read: {error.strerror}", todo) from error


def find_root(start: Path) -> Path:
    """The project that the folder `start` is in. Raises RedcoError if it is in none."""
    for folder in (start, *Path(os.path.abspath(start)).parents):
        if (folder / MANIFEST).is_file():
            return folder
    what = "is not in a redco project: no .redco/manifest.json, here or above"
    raise RedcoError(str(start), what, "give the folder of a project that redco-new made")


def inside(root: Path, typed: str) -> str:
    """A path, or PATH::SYMBOL, as typed in the working folder, '/'-separated and relative to `root`."""
    path, *symbol = typed.split("::", 1)
    return "::".join([Path(os.path.relpath(path or ".", root)).as_posix(), *symbol])


def outside(root: Path, path: str) -> str:
    """A path that is relative to the project `root`, as it is typed in the working folder."""
    return os.path.relpath(root / path)
