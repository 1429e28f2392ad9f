"""What an update keeps of the files that it changes, in the same transaction, so that it can be taken back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redco_new.errors import RedcoError
from redco_new.project.archive import pack, unpack
from redco_new.project.records import BASE, digests, read_record
from redco_new.transaction import Change, locate, sha256
from redco_new.update.changes import file_change
from redco_new.project.state import read_file

UNDO = ".redco/undo.tar.xz"  # of the last update alone, which the next one replaces
OLDER_UNDO = ".redco/undo.json"  # of older redcos, with the contents in it
INDEX = "index.json"  # of the archive: schema, and a Former of each file; its other members are contents, by their sha256
SCHEMA = 2


@dataclass(frozen=True)
class Former:
    """What an update did to one file.

    before: the sha256 of what it held, None where there was none; of the base path -> sha256 of what that held.
    after: the sha256 of what it holds since, None where it is gone.
    """

    path: str
    before: str | Mapping[str, str] | None
    after: str | None


@dataclass(frozen=True)
class LastUpdate:
    """What is kept of an update.

    record: the path of the file that it was read from.  contents: sha256 -> content, without what the new base has.
    """

    record: str
    files: Sequence[Former]
    contents: Mapping[str, bytes]

    def before(self, root: Path) -> dict[str, bytes | None]:
        """Return path -> what it held. Raises RedcoError where that is damaged. The new base must be as it was written."""
        contents = dict(self.contents)
        with _damage(self.record):
            if any(one.path == BASE and one.after for one in self.files):
                contents |= _by_digest(unpack(read_record(root, BASE) or b""))
            return {one.path: _content_before(one, contents) for one in self.files}


def with_former(root: Path, changes: Sequence[Change]) -> list[Change]:
    """Return the changes of an update and, where it does anything, the one that keeps what they replace.

    The base is kept as what it held, and each content once, those alone that the new base has not.
    """
    done = [change for change in changes if digest(change.content) != change.expected]
    if not done:
        return [*changes]
    files, contents = list[Former](), dict[str, bytes]()
    for path, content, after in ((x.path, read_file(root, x.path), x.content) for x in done):
        parts = unpack(content) if path == BASE and content else {path: content or b""}
        before = digests(parts) if path == BASE and content else digest(content)
        files.append(Former(path, before, digest(after)))
        contents |= _by_digest(parts)
    for content in next(
        (unpack(x.content) for x in done if x.path == BASE and x.content), {}
    ).values():
        contents.pop(sha256(content), None)
    index = json.dumps({"schema": SCHEMA, "files": [vars(one) for one in files]}, indent=1)
    records = {UNDO: pack({**contents, INDEX: index.encode()}), OLDER_UNDO: None}
    return [*changes, *(file_change(x, read_record(root, x), records[x]) for x in records)]


def read_former(root: Path) -> LastUpdate | None:
    """Return what is kept of the last update, of files of the project alone; None where nothing is.

    Raises RedcoError where it is damaged.
    """
    for record, parse in ((UNDO, _of_archive), (OLDER_UNDO, _of_json)):
        if (content := read_record(root, record)) is not None:
            with _damage(record):
                files, contents = parse(content)
                for one in files:
                    locate(root, one.path)
            return LastUpdate(record, files, contents)
    return None


def digest(content: bytes | None) -> str | None:
    """Return the sha256 of what a file holds; None where there is none."""
    return None if content is None else sha256(content)


def _of_archive(packed: bytes) -> tuple[list[Former], dict[str, bytes]]:
    contents = unpack(packed)
    return [Former(**one) for one in _files(contents.pop(INDEX), SCHEMA)], _by_digest(contents)


def _of_json(packed: bytes) -> tuple[list[Former], dict[str, bytes]]:
    files, contents = list[Former](), list[bytes]()
    for one in _files(packed, SCHEMA - 1):
        text = one["before"]
        content = None if text is None else base64.b64decode(text, validate=True)
        files.append(Former(one["path"], digest(content), one["after"]))
        contents += [] if content is None else [content]
    return files, {sha256(content): content for content in contents}


def _files(text: bytes, schema: int) -> list[dict[str, Any]]:
    index = json.loads(text)
    if index["schema"] != schema:
        raise ValueError(f"of schema {index['schema']!r}")
    return [dict(one) for one in index["files"]]


def _by_digest(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    return {sha256(content): content for content in contents.values()}


def _content_before(one: Former, contents: Mapping[str, bytes]) -> bytes | None:
    if isinstance(one.before, Mapping):
        return pack({path: contents[name] for path, name in one.before.items()})
    return None if one.before is None else contents[one.before]


@contextmanager
def _damage(record: str) -> Iterator[None]:
    """Raise what is wrong with a record as one RedcoError."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        what = f"is damaged: {type(error).__name__}: {error}"
        raise RedcoError(record, what, "delete it, and bring files back from git") from error
