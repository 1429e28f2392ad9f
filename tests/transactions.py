"""A project before and after an update, with every kind of change in it."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from redco_new.transaction import LOCK, Change, sha256

# path -> content of a file, or (content, mode); "-> target" is a link.
OLD = {
    ".redco/manifest.json": "old manifest",
    ".redco/base/train.py.base": "old train",
    "pkg/train.py": ("old train, edited", 0o640),
    "pkg/linked.py": "-> ../real/linked.py",
    "real/linked.py": ("old linked", 0o600),
    "launch/hosts.sh": ("old hosts", 0o755),
    "tests/keep.py": "mine",
    "tests/gone/only.py": ("old only", 0o604),
    "file_to_folder": "old file",
    "folder_to_file/in/a.py": "old a",
    "données/grüße 数据.py": "old gruß",
    "same.py": "same",
}
NEW = {
    **OLD,
    ".redco/manifest.json": "new manifest",
    ".redco/base/train.py.base": "new train",
    "pkg/train.py": ("new train, edited", 0o640),
    "real/linked.py": ("new linked", 0o600),
    "launch/hosts.sh": ("new hosts", 0o755),
    "launch/more.sh": ("#!/bin/sh", 0o755),
    "file_to_folder/in/a.py": "new a",
    "folder_to_file": "new file",
    "données/grüße 数据.py": "new gruß",
}
for path in ("tests/gone/only.py", "file_to_folder", "folder_to_file/in/a.py"):
    del NEW[path]


KEPT = ("real/linked.py", "tests/keep.py")  # the first is written to through pkg/linked.py

ALL = tuple(OLD | NEW)

# As many kinds of change in fewer files, for what is tried thousands of times.
SMALL = (
    ".redco/manifest.json",
    "pkg/train.py",
    "tests/gone/only.py",
    "file_to_folder",
    "file_to_folder/in/a.py",
    "folder_to_file",
    "folder_to_file/in/a.py",
)


def some(files: dict, paths: Iterable[str]) -> dict:
    """Those of `files` that `paths` name."""
    return {path: files[path] for path in files if path in paths}


def lay(root: Path, files: dict) -> Path:
    """`root`, a new folder with `files`; tests/gone in it has a mode of its own."""
    root.mkdir()
    for path, entry in files.items():
        content, mode = entry if isinstance(entry, tuple) else (entry, 0o644)
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("-> "):
            file.symlink_to(content[3:])
        else:
            file.write_text(content)
            file.chmod(mode)
    if (root / "tests/gone").is_dir():
        (root / "tests/gone").chmod(0o750)
    return root


def tree(root: Path) -> dict[str, tuple]:
    """All that lies under `root` but the lock: path -> kind or mode, and content."""
    paths = (path for path in root.rglob("*") if path != root / LOCK)
    return {path.relative_to(root).as_posix(): _entry(path) for path in paths}


def _entry(path: Path) -> tuple:
    if path.is_symlink():
        return ("link", os.readlink(path))
    mode = path.stat().st_mode & 0o7777
    return (mode, None if path.is_dir() else path.read_bytes())


def changes(paths: Iterable[str] = ALL, back: bool = False) -> list[Change]:
    """The update of `paths` that makes NEW of OLD, or the other way round, but for modes."""
    old, new = (_contents(files) for files in ((NEW, OLD) if back else (OLD, NEW)))
    changed = [path for path in paths if path not in KEPT]
    return [_change(path, old.get(path), new.get(path)) for path in changed]


def _contents(files: dict) -> dict[str, str]:
    """path -> content, that of a link's target for a link."""
    plain = {path: entry[0] if isinstance(entry, tuple) else entry for path, entry in files.items()}
    return {**plain, "pkg/linked.py": plain.get("real/linked.py")}


def _change(path: str, old: str | None, new: str | None) -> Change:
    content = None if new is None else new.encode()
    expected = None if old is None else sha256(old.encode())
    return Change(path, content, expected, executable=path.endswith(".sh"))


def replacing(root, path, content=b"new", **options):
    """A change of what `path` holds now."""
    return Change(path, content, sha256((root / path).read_bytes()), **options)


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder in memory, where the machine has that, for what is written a thousand times."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)
