"""Text of files, and JSON, one object a line: what is neither is named; a kill may damage lines, never a run."""

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import writing
from .paths import is_bucket

HALF = re.compile(r"\\u[dD][89a-fA-F]")  # as JSON writes half of a character, of an emoji


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
