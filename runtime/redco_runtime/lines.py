"""Files of one JSON object a line, in the work folder: a kill or a bad disk may damage lines, never a run."""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from redco_runtime.errors import writing


def parse_json(text: str | bytes) -> Any:
    """Return what a text of JSON says. Raises ValueError where it says nothing, or is nested too deep to be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def append_line(path: Path, record: Mapping[str, Any]) -> None:
    """Add a line; NaN and infinity, which JSON does not have, are null. Raises UserError."""
    bad = [
        k for k, value in record.items() if isinstance(value, float) and not math.isfinite(value)
    ]
    with writing(path), open(path, "a") as file:
        file.write(json.dumps({**record, **dict.fromkeys(bad)}) + "\n")


def read_lines(path: Path, *numbers: str) -> list[dict[str, Any]]:
    """Return the lines, in order; a damaged one is named and left out, as one cut short is.

    A file that is not there has none. Raises OSError for one that cannot be read.
    numbers: the names of those that a sound line has, beside its step.
    """
    return [record for _, record in _parse(path, numbers)]


def cut_lines(path: Path, last: float = math.inf) -> None:
    """Drop the lines of steps after `last`, and damaged ones. Raises UserError.

    The file is there afterwards: what cannot be written is known before the first step.
    """
    with writing(path):
        path.open("a").close()
        lines = [line for line, record in _parse(path) if record["step"] <= last]
        if path.is_file() and b"".join(lines) != path.read_bytes():
            beside = path.with_suffix(".tmp")
            beside.write_bytes(b"".join(lines))
            beside.replace(path)


def _parse(path: Path, numbers: Sequence[str] = ()) -> list[tuple[bytes, dict[str, Any]]]:
    """Return (line, what it says) of the sound ones."""
    sound = []
    for line in path.read_bytes().splitlines(keepends=True) if path.is_file() else []:
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
