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
def mirrored(root: Path, files: Mapping[str, bytes | None], climb: int = 0) -> Iterator[Path]:
    """The project `root` with `files` laid over it, in a temporary folder that goes afterwards.

    files: '/'-separated path -> content, or None where the file is gone; one that is a link in the
    project is a plain file here.  climb: how many folders above the project its own paths reach,
    2 for ../../nets.py: they lie around it here too.
    Folders that hold no such file are links to the real ones: who writes to them writes there.
    Raises RedcoError if the disk does not let it.
    """
    real = root.resolve()
    top = ([real, *real.parents])[: climb + 1][-1]
    inner = real.relative_to(top)
    laid = {inner / path: content for path, content in files.items()}
    with scratch() as folder:
        target = folder / (top.name or "root")
        with told():
            link(top, target, {*folders_of(laid), inner, *inner.parents}, laid.keys())
            for path, content in laid.items():
                if content is not None:
                    write(target / path, content, top / path)
        yield target / inner


def folders_of(paths: Iterable[Path]) -> set[Path]:
    """All the folders that hold these files, and those that hold them."""
    return {folder for path in paths for folder in path.parents}


def link(source: Path, target: Path, folders: Iterable[Path], files: Iterable[Path]) -> None:
    """Make `folders` in `target`, with a link to each thing that they hold in `source`, but `files`."""
    others = {*folders, *files}
    for folder in sorted(folders):
        (target / folder).mkdir()
        held = os.listdir(source / folder) if (source / folder).is_dir() else []
        for name in held:
            if name != BYTECODE and folder / name not in others:
                os.symlink(source / folder / name, target / folder / name)


def write(path: Path, content: bytes, before: Path) -> None:
    """Make a file, which may be executed if `before` may, or if it is a script."""
    path.write_bytes(content)
    if content.startswith(b"#!") or before.is_file() and os.access(before, os.X_OK):
        path.chmod(0o755)


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder, gone afterwards. Raises RedcoError if the disk does not let it."""
    with told():
        folder = Path(tempfile.mkdtemp(prefix="redco-"))
    try:
        yield folder
    finally:
        # Not TemporaryDirectory: what it may not delete it gives other modes, through links too.
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def told() -> Iterator[None]:
    """Tell an OSError as a RedcoError."""
    try:
        yield
    except OSError as error:
        where = error.filename2 or error.filename or "TMPDIR"
        what = f"the merged project cannot be tried there: {error.strerror}"
        raise RedcoError(str(where), what, "mend that, or set TMPDIR") from error
