"""Where the text of a path becomes one: of this machine, or of a bucket, by etils and fsspec.

What is no `pathlib.Path` is of a bucket: it has the methods of one that are called here, and those of
buckets.py for what a bucket cannot do. No text with a scheme is ever the name of a local folder.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeGuard

from .errors import UserError, feature

BUCKETS = {"gs": "gcsfs", "s3": "s3fs", "az": "adlfs"}  # scheme -> the package that opens it
COMMITTED = "commit_success.txt"  # what Orbax writes last into a checkpoint in a bucket
STORES = ("gs", "s3")  # whose tensors TensorStore reads and writes


def scheme_of(text: object) -> str:
    """Return what a path begins with before `://`, "" for one of this machine.

    `s3:/bucket` is one of s3 too: pathlib leaves that of it.
    """
    head, mark, _ = str(text).partition(":/")
    plain = head.replace("+", "").replace("-", "").isalnum()
    return head if mark and plain and (head in BUCKETS or "://" in str(text)) else ""


def path_of(text: str | os.PathLike[str]) -> Any:
    """Return the path that a text names, which one of the functions below has parsed."""
    if not scheme_of(text):
        return Path(text)
    # Late: it takes a second, and few are in a bucket.
    return feature("buckets", "base.buckets").BucketPath(text)


def cache_of(folder: str) -> Path:
    """Return the folder of this machine for what is kept in one, which may be in a bucket."""
    here = folder.replace("://", "/")
    return Path(f"~/.cache/redco/buckets/{here}" if scheme_of(folder) else folder).expanduser()


def is_bucket(path: object) -> "TypeGuard[Any]":
    """Return whether a path is of a bucket."""
    return not isinstance(path, Path)


def any_path(text: str, schemes: Iterable[str] = BUCKETS) -> Any:
    """Parse a path of this machine or of a bucket."""
    scheme = scheme_of(text)
    if scheme and (scheme not in schemes or not text.startswith(f"{scheme}://")):
        others = "".join(f", {one}://..." for one in schemes)
        what = "is no path here: give one of this machine, such as where it is mounted"
        raise argparse.ArgumentTypeError(f"{text!r} {what}{others}")
    try:
        path = path_of(text)
        if scheme and not find_spec(BUCKETS[scheme]):
            raise UserError(f"to open it, pip install {BUCKETS[scheme]}")
        path.exists()
    except UserError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} cannot be one: {error.strerror or error}"
        ) from None
    return path


local_path = partial(any_path, schemes=())  # of this machine, or of a file system that it mounts
work_folder = partial(any_path, schemes=STORES)  # of a folder that has checkpoints


def check_paths(flag: str, names: str | Iterable[str] | None, parse: Any = local_path) -> None:
    """Raise UserError where a value of a flag, or one of several, is no path that `parse` takes."""
    for name in [names] if isinstance(names, str) else names or ():
        try:
            if scheme_of(name):
                parse(name)
        except argparse.ArgumentTypeError as error:
            raise UserError(f"{flag}: {error}") from None


def whole_checkpoints(folder: Any) -> list[int]:
    """Return the steps of a folder's checkpoints that are whole: by their names, or in a bucket by what is written last."""
    whole = folder.glob("*")
    if is_bucket(folder):
        whole = (path.parent for path in folder.glob(f"*/{COMMITTED}"))
    return [int(path.name) for path in whole if path.name.isdecimal()]


def send_lines() -> None:
    """Return when lines that were added to files are written: to a bucket they go every few seconds. Raises OSError."""
    if buckets := sys.modules.get(f"{__package__}.buckets"):
        buckets.send()


def remove_tree(path: Any, missing: bool = False) -> None:
    """Remove a folder and all in it. missing: it may not be there, or go meanwhile."""
    if is_bucket(path):
        path.rmtree(missing_ok=missing)
    else:
        shutil.rmtree(path, ignore_errors=missing)


@contextmanager
def written_here(path: Any) -> Iterator[Path]:
    """Yield the path of a file that a library is to write, which is `path` afterwards."""
    if not is_bucket(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        yield path
        return
    with TemporaryDirectory() as folder:
        yield Path(folder, path.name)
        path.parent.fill(Path(folder))
