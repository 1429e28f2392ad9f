"""What redco remembers of a project: what it was made for, digests of what redco wrote, and what is pending."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.version import InvalidVersion, Version
from redco_merge.migrate import LATEST

from redco_new import __version__
from redco_new.errors import RedcoError
from redco_new.render.owners import in_runtime, owner
from redco_new.request.names import check_name, package_name
from redco_new.transaction import MANIFEST, sha256

SCHEMA = 2
EACH_FILE = 1  # the schema that had a digest and a copy of each file, of the runtime too
OWN = ".redco/"  # what no update may change as a file of the project
SIDES = ("", "mine", "theirs")
FROM_GIT = "git checkout COMMIT -- .redco"
DIGEST = re.compile("[0-9a-f]{64}")
MODEL_KEYS = {"found", "key", "source"}  # of the record of a model


@dataclass(frozen=True)
class PendingChange:
    """A change of the template that a file of the project does not hold.

    path: of the file.
    symbol: as a Conflict names it.
    reason: why the file does not hold it.
    theirs: what the template says; "" for nothing.
    base: what the template said before the change was pending; "" for nothing.
    side: whose is chosen, "mine" or "theirs"; "" if that is open.
    user_digest: sha256 of what the user gives up if the template's side is chosen; "" if not known.
    update_applied: whether the rest of that update is in the project.
    """

    path: str
    symbol: str
    reason: str
    theirs: str
    base: str = ""
    side: str = ""
    user_digest: str = ""
    update_applied: bool = False


# Key of a pending change in the JSON -> field, where the two differ.
JSON_KEYS = {"given": "user_digest", "applied": "update_applied"}


@dataclass(frozen=True)
class Manifest:
    """What redco remembers of a project.

    request: Request.to_dict() of what it was made for.
    files: path -> sha256 of what redco wrote.
    fork: whether its template was not redco's own.
    ejected_paths: the files that redco leaves to the user.
    pending: the changes of the template that files do not hold.
    model_record: the model, so that no other machine makes another of it; None for an own class.
    interface: the number of the last migration that what the user wrote has been through.
    """

    request: Mapping[str, Any]
    files: Mapping[str, str]
    fork: bool = False
    ejected_paths: tuple[str, ...] = ()
    pending: tuple[PendingChange, ...] = ()
    model_record: Mapping[str, Any] | None = None
    interface: int = LATEST

    def to_json(self) -> str:
        """Return its stored text: keys sorted, a final newline, the same for the same input."""
        package = package_name(self.request["name"])
        content = {
            "schema": SCHEMA,
            "generator": __version__,
            "interface": self.interface,
            "template": "fork" if self.fork else "redco",
            "request": self.request,
            "model": self.model_record,
            "files": {
                path: {"owner": owner(path, package), "sha256": digest}
                for path, digest in self.files.items()
                if not in_runtime(path)
            },
            "runtime": runtime_digest(self.files),
            "ejected": sorted(self.ejected_paths),
            "pending": [_pending_to_json(change) for change in self.pending],
        }
        return json.dumps(content, indent=2, sort_keys=True) + "\n"


def runtime_digest(files: Mapping[str, str]) -> str:
    """Return the sha256 of the runtime as a tree, of {path: sha256} of a project's files."""
    lines = (f"{digest} {path}\n" for path, digest in sorted(files.items()) if in_runtime(path))
    return sha256("".join(lines).encode())


def read_manifest(root: Path) -> tuple[Manifest, str | None]:
    """Return (the manifest of a project, the digest of its runtime): input, not truth.

    `files` is without the runtime then; the digest is None where an older redco has written each file of it there.
    Raises RedcoError if there is none, or it is damaged.
    """
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
        todo = f"take {OWN} of one side ({FROM_GIT}), then run `redco update`"
        raise RedcoError(where, what, todo)
    try:
        return _parse(where, json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"is damaged: {type(error).__name__}: {error}"
        raise RedcoError(where, what, "bring it back from git, or from a copy") from error


def _parse(where: str, content: Any) -> tuple[Manifest, str | None]:
    """Return the manifest that JSON holds, and the digest of the runtime.

    Raises RedcoError for what a newer redco wrote, ValueError and its like for what is wrong.
    """
    newer = RedcoError(where, f"was written by redco-new {content['generator']}", "install that")
    try:
        if content["schema"] > SCHEMA or Version(content["generator"]) > Version(__version__):
            raise newer
    except InvalidVersion as error:
        raise ValueError(str(error)) from error
    request, ejected_paths = dict(content["request"]), content.get("ejected", [])
    model_record = content.get("model")
    check_name(f"{where}: request", request["name"])
    files = {path: entry["sha256"] for path, entry in content["files"].items()}
    runtime = None if content["schema"] == EACH_FILE else content["runtime"]
    digests = files if runtime is None else {**files, "the runtime": runtime}
    if bad := [name for name, digest in digests.items() if not DIGEST.fullmatch(digest)]:
        raise ValueError(f"the sha256 of {bad[0]}")
    if not isinstance(ejected_paths, list) or not isinstance(model_record, dict | None):
        raise TypeError("ejected is no list, or model no table")
    if model_record is not None and (missing := MODEL_KEYS - model_record.keys()):
        raise KeyError(f"model.{min(missing)}")
    pending = tuple(_pending_from_json(**entry) for entry in content.get("pending", []))
    for path in (*files, *ejected_paths, *(change.path for change in pending)):
        plain = PurePosixPath(path)
        outside = str(plain) != path or plain.is_absolute() or ".." in plain.parts
        if outside or path.lower().startswith(OWN):
            raise ValueError(f"{path!r} is no file of a project")
    fork = content.get("template") == "fork"
    interface = content.get("interface", _former_interface(files))
    if not isinstance(interface, int) or interface > LATEST:
        raise newer
    manifest = Manifest(
        request, files, fork, tuple(ejected_paths), pending, model_record, interface
    )
    return manifest, runtime


def _former_interface(files: Collection[str]) -> int:
    """Return the interface of a project from before manifests had it: by the loop, which moved first."""
    return 0 if "redco_runtime/loop.py" in files else 1


def _pending_to_json(change: PendingChange) -> dict[str, Any]:
    keys = {field: key for key, field in JSON_KEYS.items()}
    return {keys.get(field, field): value for field, value in asdict(change).items()}


def _pending_from_json(**entry: Any) -> PendingChange:
    """Return a pending change. Raises ValueError, or TypeError, if the entry is not that of one."""
    if wrong := entry.keys() & set(JSON_KEYS.values()):
        raise TypeError(f"unknown key {min(wrong)}")
    change = PendingChange(**{JSON_KEYS.get(key, key): value for key, value in entry.items()})
    texts = (change.path, change.symbol, change.reason, change.theirs, change.base)
    for text in (*texts, change.user_digest):
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is no text")
        text.encode()  # raises for what JSON can hold and no file can
    if change.side not in SIDES or not isinstance(change.update_applied, bool):
        raise ValueError(f"the side of {change.path}")
    return change
