"""Files of this machine, or of a bucket by etils and fsspec: their paths, and what is in them as text, or JSON, one object a line.

What is no `pathlib.Path` is of a bucket: it has the methods of one that are called here, and those of
buckets.py for what a bucket cannot do. No text with a scheme is ever the name of a local folder. Text that is neither UTF-8
nor JSON is named; a kill may damage lines, never a run.
"""

import argparse
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeGuard

from .messages import UserError, feature, writing

BUCKETS = {"gs": "gcsfs", "s3": "s3fs", "az": "adlfs"}  # scheme -> the package that opens it
COMMITTED = "commit_success.txt"  # what Orbax writes last into a checkpoint in a bucket
STORES = ("gs", "s3")  # whose tensors TensorStore reads and writes
HALF = re.compile(r"\\u[dD][89a-fA-F]")  # as JSON writes half of a character, of an emoji


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


# Parse a path of this machine, or of a file system that it mounts; that of a folder of checkpoints.
local_path: Callable[[str], Any] = partial(any_path, schemes=())
work_folder: Callable[[str], Any] = partial(any_path, schemes=STORES)


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


def parse_json(text: str | bytes, checked: bool = True) -> Any:
    """Return what a text of JSON says. Raises ValueError where it says nothing, is nested too deep, or is no text.

    checked: refuse halves of characters; else `check_characters` is still to look at it.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode(json.detect_encoding(text))
        except UnicodeDecodeError as error:
            raise ValueError(f"it is not {error.encoding.upper()}: convert or unpack it") from None
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if checked and HALF.search(text):
        check_characters(value)
    return value


def check_characters(value: Any) -> None:
    """Raise ValueError where a text, or one within a value of JSON, is none: has half of a character."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("it has half a surrogate pair, which is no character") from None


def read_text(path: Path) -> str:
    """Return the text of a file. Raises OSError, and ValueError, which says where it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = 1 + error.object.count(b"\n", 0, error.start)
        raise ValueError(f"line {line} is not UTF-8: convert or unpack the file") from None


def append_line(path: Path, record: Mapping[str, Any]) -> None:
    """Add a line; NaN and infinity, which JSON does not have, are null. Raises UserError."""
    bad = [k for k, x in record.items() if isinstance(x, float) and not math.isfinite(x)]
    line = json.dumps({**record, **dict.fromkeys(bad)}) + "\n"
    with writing(path):
        if is_bucket(path):
            return path.append(line)
        with open(path, "a") as file:
            file.write(line)


def read_lines(path: Path, *numbers: str) -> list[dict[str, Any]]:
    """Return the lines, in order; a damaged one is named and left out, as one cut short is.

    A file that is not there has none. Raises OSError for one that cannot be read.
    numbers: the names of those that a sound line has, beside its step.
    """
    return [record for file in files_of_lines(path) for _, record in _parse(file, numbers)]


def cut_lines(path: Path, last: float = math.inf) -> None:
    """Drop the lines of steps after `last`, and damaged ones. Raises UserError.

    The file is there afterwards: what cannot be written is known before the first step.
    """
    with writing(path):
        if not is_bucket(path):
            path.open("a").close()
        for file in files_of_lines(path):
            lines = b"".join(line for line, record in _parse(file) if record["step"] <= last)
            if lines == file.read_bytes():
                continue
            if is_bucket(path) and is_bucket(file):
                path.rewrite(file, lines)
            else:
                beside = file.with_suffix(".tmp")
                beside.write_bytes(lines)
                beside.replace(file)


def files_of_lines(path: Path) -> list[Path]:
    """Return what has the lines of a file: in a bucket several objects."""
    if is_bucket(path):
        return [*path.objects()]
    return [path] if path.is_file() else []


def _parse(path: Path, numbers: Sequence[str] = ()) -> list[tuple[bytes, dict[str, Any]]]:
    """Return (line, what it says) of the sound ones."""
    sound = []
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            record = parse_json(line)
            record |= {name: float(record[name]) for name in numbers}
            record["step"] = int(record["step"])
        except (ValueError, KeyError, TypeError, OverflowError):
            if line.endswith(b"\n"):  # else a kill cut it short
                print(f"warning: {path}: a damaged line is dropped: {line[:40]!r}", file=sys.stderr)
            continue
        if line.endswith(b"\n"):
            sound.append((line, record))
    return sound
