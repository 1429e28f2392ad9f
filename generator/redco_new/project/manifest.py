"""What redco remembers of a project, in its .redco/: the manifest, and a pristine copy of each file.

The manifest tells an untouched file from an edited one; the copies are the base of a three-way merge.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.version import InvalidVersion, Version

from redco_new import __version__
from redco_new.errors import RedcoError
from redco_new.request.names import check_name, package_name
from redco_new.render.owners import owner
from redco_new.request import Request

SCHEMA = 1
MANIFEST = ".redco/manifest.json"
BASE = ".redco/base/"
OWN = ".redco/"  # what no update may change as a file of the project
BASE_SUFFIX = ".base"  # so that linters and pytest pass the copies by
SIDES = ("", "mine", "theirs")
DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Pending:
    """A change of the template that a file of the project does not hold.

    symbol: as a Conflict names it.  theirs, base: what the template says, and said before it was
    pending, "" for nothing.  side: whose is chosen, if that is settled.  given: sha256 of what the
    user gives up if that is the template's.
    applied: whether the rest of that update is in the project.
    """

    path: str
    symbol: str
    reason: str
    theirs: str
    base: str = ""
    side: str = ""
    given: str = ""
    applied: bool = False


@dataclass(frozen=True)
class Manifest:
    """files: path -> sha256 of what redco wrote.  fork: whether its template was not redco's own.

    ejected: the files that redco leaves to the user.  recorded: the model, as
    sources.recorded has it, so that no other machine makes another of it; None for an own class.
    """

    request: Mapping[str, Any]
    files: Mapping[str, str]
    fork: bool = False
    ejected: tuple[str, ...] = ()
    pending: tuple[Pending, ...] = ()
    recorded: Mapping[str, Any] | None = None

    def to_json(self) -> str:
        """As it is stored: keys sorted, a final newline, the same text for the same input."""
        package = package_name(self.request["name"])
        content = {
            "schema": SCHEMA,
            "generator": __version__,
            "template": "fork" if self.fork else "redco",
            "request": self.request,
            "model": self.recorded,
            "files": {
                path: {"owner": owner(path, package), "sha256": digest}
                for path, digest in self.files.items()
            },
            "ejected": sorted(self.ejected),
            "pending": [asdict(each) for each in self.pending],
        }
        return json.dumps(content, indent=2, sort_keys=True) + "\n"


def records(
    request: Request,
    files: Mapping[str, str],
    fork: bool = False,
    recorded: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """{path: text} of what goes into .redco/ for a new project of these files."""
    digests = {path: sha256(text.encode()) for path, text in files.items()}
    base = {base_path(path): text for path, text in files.items()}
    return {
        MANIFEST: Manifest(request.to_dict(), digests, fork, recorded=recorded).to_json(),
        **base,
    }


def base_path(path: str) -> str:
    """Where the pristine copy of a file lies."""
    return f"{BASE}{path}{BASE_SUFFIX}"


def read_manifest(root: Path) -> Manifest:
    """The manifest of a project: input, not truth. Raises RedcoError if it is none, or damaged."""
    where = str(root / MANIFEST)
    try:
        text = (root / MANIFEST).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        what = f"is not a redco project: it has no {MANIFEST}"
        raise RedcoError(
            str(root), what, "give the folder of a project that redco-new made"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise RedcoError(where, f"cannot be read: {error}", "bring it back from git") from error
    if "\n<<<<<<< " in f"\n{text}":
        what = "has the marks of a conflict of git"
        todo = f"take either side of it (git checkout --ours {where}), then run `redco update`"
        raise RedcoError(where, what, todo)
    try:
        return parse(where, json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"is damaged: {type(error).__name__}: {error}"
        raise RedcoError(where, what, "bring it back from git, or from a copy") from error


def parse(where: str, content: Any) -> Manifest:
    """Raises RedcoError for what a newer redco wrote, ValueError and its like for what is wrong."""
    newer = RedcoError(where, f"was written by redco-new {content['generator']}", "install that")
    try:
        if content["schema"] > SCHEMA or Version(content["generator"]) > Version(__version__):
            raise newer
    except InvalidVersion as error:
        raise ValueError(str(error)) from error
    request, ejected = dict(content["request"]), content.get("ejected", [])
    recorded = content.get("model")
    check_name(f"{where}: request", request["name"])
    files = {path: entry["sha256"] for path, entry in content["files"].items()}
    if bad := [path for path, digest in files.items() if not DIGEST.fullmatch(digest)]:
        raise ValueError(f"the sha256 of {bad[0]}")
    if not isinstance(ejected, list) or not isinstance(recorded, dict | None):
        raise TypeError("ejected is no list, or model no table")
    if recorded is not None and (missing := {"found", "key", "source"} - recorded.keys()):
        raise KeyError(f"model.{min(missing)}")
    pending = tuple(_pending(**each) for each in content.get("pending", []))
    for path in (*files, *ejected, *(each.path for each in pending)):
        plain = PurePosixPath(path)
        outside = str(plain) != path or plain.is_absolute() or ".." in plain.parts
        if outside or path.lower().startswith(OWN):
            raise ValueError(f"{path!r} is no file of a project")
    fork = content.get("template") == "fork"
    return Manifest(request, files, fork, tuple(ejected), pending, recorded)


def _pending(**values: Any) -> Pending:
    """Raises ValueError, or TypeError, if they are not those of a Pending."""
    found = Pending(**values)
    for text in (found.path, found.symbol, found.reason, found.theirs, found.base, found.given):
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is no text")
        text.encode()  # raises for what JSON can hold and no file can
    if found.side not in SIDES or not isinstance(found.applied, bool):
        raise ValueError(f"the side of {found.path}")
    return found


def sha256(content: bytes) -> str:
    """The hash of a file's content, in hex."""
    return hashlib.sha256(content).hexdigest()
