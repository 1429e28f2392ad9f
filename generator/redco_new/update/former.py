"""What an update keeps of the files that it changes, in the same transaction, so that it can be taken back."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redco_new.errors import RedcoError
from redco_new.transaction import Change, locate, sha256
from redco_new.update.changes import file_change
from redco_new.update.project_state import read_file

UNDO = ".redco/undo.json"  # of the last update alone, which the next one replaces
SCHEMA = 1


@dataclass(frozen=True)
class Former:
    """A file that an update changed.

    before: what it held, None where there was none.  after: sha256 of what it holds since, None where it is gone.
    """

    path: str
    before: bytes | None
    after: str | None


def with_former(root: Path, changes: Sequence[Change]) -> list[Change]:
    """Return the changes of an update and, where it does anything, the one that keeps what they replace."""
    former = [
        Former(change.path, read_file(root, change.path), digest(change.content))
        for change in changes
        if digest(change.content) != change.expected
    ]
    if not former:
        return [*changes]
    entries = [
        {"path": one.path, "before": _to_text(one.before), "after": one.after} for one in former
    ]
    text = json.dumps({"schema": SCHEMA, "files": entries}, indent=1) + "\n"
    return [*changes, file_change(UNDO, read_file(root, UNDO), text.encode())]


def read_former(root: Path, record: bytes) -> list[Former]:
    """Return what is kept, of files of the project alone. Raises RedcoError where it is damaged."""
    try:
        content = json.loads(record)
        if content["schema"] != SCHEMA:
            raise ValueError(f"of schema {content['schema']!r}")
        former = [
            Former(one["path"], _from_text(one["before"]), one["after"]) for one in content["files"]
        ]
        for one in former:
            locate(root, one.path)
        return former
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        what = f"is damaged: {type(error).__name__}: {error}"
        raise RedcoError(UNDO, what, "delete it, and bring files back from git") from error


def digest(content: bytes | None) -> str | None:
    """Return the sha256 of what a file holds; None where there is none."""
    return None if content is None else sha256(content)


def _to_text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _from_text(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
