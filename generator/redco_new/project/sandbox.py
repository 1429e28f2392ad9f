"""A folder that looks like a project with some files changed, of links to what did not change."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from redco_new.errors import RedcoError

BYTECODE = "__pycache__"  # may be of the text before, and is the only thing that is left out


@contextmanager
def mirror_project(
    root: Path, files: Mapping[str, bytes | None], levels_up: int = 0
) -> Iterator[Path]:
    """Make the project `root` with `files` laid over it, in a temporary folder that goes later.

    files: '/'-separated path -> content, or None where the file is gone; one that is a link in the
        project is a plain file here.
    levels_up: how many folders above the project its own paths reach, 2 for ../../nets.py: they lie
        around it here too.

    Folders that hold no such file are links to the real ones: who writes to them writes there.
    Raises RedcoError if the disk does not let it.
    """
    real = root.resolve()
    top = ([real, *real.parents])[: levels_up + 1][-1]
    inner = real.relative_to(top)
    contents = {inner / path: content for path, content in files.items()}
    with temporary_folder() as folder:
        target = folder / (top.name or "root")
        with sandbox_errors():
            folders = {*_enclosing_folders(contents), inner, *inner.parents}
            _link(top, target, folders, contents.keys())
            for path, content in contents.items():
                if content is not None:
                    _write(target / path, content, top / path)
        yield target / inner


def _enclosing_folders(paths: Iterable[Path]) -> set[Path]:
    """Return all the folders that hold these files, and those that hold them."""
    return {folder for path in paths for folder in path.parents}


def _link(source: Path, target: Path, folders: Iterable[Path], files: Iterable[Path]) -> None:
    """Make `folders` in `target`, with links to all that they hold in `source` but `files`."""
    others = {*folders, *files}
    for folder in sorted(folders):
        (target / folder).mkdir()
        names = os.listdir(source / folder) if (source / folder).is_dir() else []
        for name in names:
            if name != BYTECODE and folder / name not in others:
                os.symlink(source / folder / name, target / folder / name)


def _write(path: Path, content: bytes, before: Path) -> None:
    """Write a file, which may be executed if `before` may, or if it is a script."""
    path.write_bytes(content)
    if content.startswith(b"#!") or before.is_file() and os.access(before, os.X_OK):
        path.chmod(0o755)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a temporary folder, gone afterwards. Raises RedcoError if the disk does not let it."""
    with sandbox_errors():
        folder = Path(tempfile.mkdtemp(prefix="redco-"))
    try:
        yield folder
    finally:
        # Not TemporaryDirectory: what it may not delete it gives other modes, through links too.
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def sandbox_errors() -> Iterator[None]:
    """Raise an OSError of the block as a RedcoError about the temporary folder."""
    try:
        yield
    except OSError as error:
        where = error.filename2 or error.filename or "TMPDIR"
        what = f"no project can be tried there: {error.strerror}"
        raise RedcoError(str(where), what, "mend that, or set TMPDIR") from error
