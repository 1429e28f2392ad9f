"""The records of a project, in .redco/: the manifest, and what redco wrote, the base of every three-way merge, in one archive.

They are of one moment, and are read as one: where they do not fit, nothing is done. Projects of older redcos have a
copy of each file, in .redco/base/; whatever writes their records makes an archive of these.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from redco_new.errors import RedcoError
from redco_new.project.archive import MOST_PACKED, pack, unpack
from redco_new.project.manifest import (
    FROM_GIT,
    Manifest,
    read_manifest,
    runtime_digest,
)
from redco_new.render.owners import in_runtime
from redco_new.request import Request
from redco_new.transaction import MANIFEST, locate, sha256

BASE = ".redco/base.tar.xz"
COPIES, SUFFIX = ".redco/base/", ".base"  # of older redcos
BRING_BACK = (
    f"bring all of .redco back from one commit ({FROM_GIT}), or `redco adopt` writes it anew"
)


@dataclass(frozen=True)
class Records:
    """What lies in .redco/ of a project.

    manifest: with the digest of each file, of the runtime too.
    base: path -> what redco wrote.
    files: path -> content of the files that hold these two.
    """

    manifest: Manifest
    base: Mapping[str, bytes]
    files: Mapping[str, bytes]


def new_records(
    request: Request,
    files: Mapping[str, str],
    fork: bool = False,
    model_record: Mapping[str, Any] | None = None,
) -> dict[str, bytes]:
    """Return {path: content} of what goes into .redco/ for a new project of these files."""
    base = {path: text.encode() for path, text in files.items()}
    manifest = Manifest(request.to_dict(), digests(base), fork, model_record=model_record)
    return {BASE: pack(base), MANIFEST: manifest.to_json().encode()}


def digests(contents: Mapping[str, bytes]) -> dict[str, str]:
    """Return path -> sha256."""
    return {path: sha256(content) for path, content in contents.items()}


def read_records(root: Path) -> Records:
    """Return the records of a project. Raises RedcoError if there are none, or they do not fit each other."""
    manifest, runtime = read_manifest(root)
    files = record_files(root)
    mixed = RedcoError(
        str(root / BASE), f"does not fit {MANIFEST}: they are not of one update", BRING_BACK
    )
    if runtime is None:
        if BASE in files:
            raise mixed
        return Records(manifest, _copies(root, files, manifest), files)
    if BASE not in files:
        raise RedcoError(str(root / BASE), "is missing", BRING_BACK)
    base = _unpacked(root, BASE, files[BASE])
    present = digests(base)
    own = {path: digest for path, digest in present.items() if not in_runtime(path)}
    if own != manifest.files or runtime_digest(present) != runtime:
        raise mixed
    return Records(replace(manifest, files=present), base, files)


def _copies(root: Path, files: Mapping[str, bytes], manifest: Manifest) -> dict[str, bytes]:
    """Return what an older redco wrote, file by file. Raises RedcoError if a copy is missing, or is another."""
    copies = {path: files.get(f"{COPIES}{path}{SUFFIX}") for path in manifest.files}
    base = {path: copy for path, copy in copies.items() if copy is not None}
    present = digests(base)
    if bad := [path for path, digest in manifest.files.items() if present.get(path) != digest]:
        what = "is missing, or is not what redco wrote"
        raise RedcoError(str(root / f"{COPIES}{bad[0]}{SUFFIX}"), what, BRING_BACK)
    return base


def record_files(root: Path) -> dict[str, bytes]:
    """Return path -> content of the files in .redco/ that hold the records, as they are. Raises RedcoError."""
    copies = (x for x in (root / COPIES).rglob(f"*{SUFFIX}") if x.is_file())
    paths = [MANIFEST, BASE, *sorted(path.relative_to(root).as_posix() for path in copies)]
    contents = {path: read_record(root, path) for path in paths}
    return {path: content for path, content in contents.items() if content is not None}


def read_record(root: Path, path: str) -> bytes | None:
    """Return what a file of .redco/ holds; None where there is none. Raises RedcoError, also for what is too large."""
    file = root / locate(root, path)
    try:
        status = os.stat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_PACKED:
            what = f"is no plain file of at most {MOST_PACKED >> 20} MB"
            raise RedcoError(str(root / path), what, f"delete it, and {BRING_BACK}")
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RedcoError(
            str(root / path), f"cannot be read: {error.strerror}", BRING_BACK
        ) from error


def _unpacked(root: Path, path: str, packed: bytes) -> dict[str, bytes]:
    """Return the texts that the archive `path` holds. Raises RedcoError where it is damaged."""
    try:
        contents = unpack(packed)
        for content in contents.values():
            content.decode()  # what redco writes is text, and is merged as such
        return contents
    except ValueError as error:
        raise RedcoError(str(root / path), f"is damaged: {error}", BRING_BACK) from error
