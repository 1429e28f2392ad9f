"""Whether a checkpoint is as it was written.

Each part of a tensor has a crc32c, which TensorStore compares as it reads it: who needs it learns of its damage, and nothing
is read twice. checksums.json in the folder has the sha256 of the other files, which are small, and the sizes of those of tensors; in a
bucket sizes alone, since a store compares what it is sent. Earlier versions wrote the sha256 of all.
"""

import hashlib
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath
from typing import Any, TypeVar

import jax

from ..base.files import is_bucket
from ..base.together import decide

CHECKSUMS = "checksums.json"
REWRITTEN = "_CHECKPOINT_METADATA"  # Orbax adds the time of the commit to it after the checksums
MANIFEST = "manifest.ocdbt"  # of the tensors of a folder, whose other files are in its `d`
# What TensorStore says of files that are not as they were; of others that it cannot read now, such as UNAVAILABLE.
DAMAGE = ("DATA_LOSS", "OUT_OF_RANGE", "NOT_FOUND", "FAILED_PRECONDITION", "Error ")

T = TypeVar("T")


class Damaged(Exception):
    """A checkpoint is not as it was written. Its text says where."""


def write_checksums(folder: Path) -> None:
    """Write checksums.json of all files that are in a folder."""
    sums: dict[str, Any] = _sizes(folder)
    sums.pop(REWRITTEN, None)
    if not is_bucket(folder):
        of_tensors = (
            name for name in sums if name.endswith(MANIFEST) or PurePath(name).parent.name == "d"
        )
        sums |= _digests(folder, sorted(sums.keys() - of_tensors))
    (folder / CHECKSUMS).write_text(json.dumps(sums, indent=1))


def check_sums(folder: Path) -> None:
    """Raise Damaged where a file is not as checksums.json has it. The processes share the files out."""
    try:
        sums = json.loads((folder / CHECKSUMS).read_text())
    except (OSError, ValueError):
        raise Damaged(_changed(folder / CHECKSUMS)) from None
    own = [*sums][jax.process_index() :: jax.process_count()]
    there = _sizes(folder) if own else {}
    there |= _digests(folder, [name for name in own if isinstance(sums[name], str)])
    for name in own:
        if there.get(name) != sums[name]:
            raise Damaged(_changed(folder / name))


def verified(folder: Path, read: Callable[[], T]) -> T:
    """Return what `read` reads of the tensors in `folder`. Raises Damaged in all processes where one meets damage."""
    damage = ""
    try:
        tensors = read()
    except Damaged as fault:
        damage = str(fault)
    except Exception as error:
        text = str(error.__cause__ or error)
        if not text.startswith(DAMAGE):
            raise
        damage = _changed(_file_of(folder, text))
    if damage := decide("the checkpoint that it reads", damage, max):
        raise Damaged(damage)
    return tensors


def _changed(file: object) -> str:
    return f"{file} is missing or has changed"


def _file_of(folder: Path, text: str) -> object:
    """Return the file of tensors in `folder` that TensorStore means, which names it, or the part of a tensor that is in it."""
    import tensorstore  # late, as it takes a while

    if named := re.findall(r'local file "([^"]+[^/])"', text):
        return named[-1]
    (part,) = re.findall(r'"([^"]+)" in OCDBT database', text)[:1] or [""]
    place = str(folder) if is_bucket(folder) else folder.as_uri()
    files = tensorstore.KvStore.open(f"{place}/").result()
    versions = tensorstore.ocdbt.dump(files).result()["versions"]
    parts = tensorstore.ocdbt.dump(files, versions[-1]["root"]["location"]).result()["entries"]
    places = {entry["key"]: entry["indirect_value"] for entry in parts if "indirect_value" in entry}
    _, base, name, *_ = places.get(part.encode(), ":" * 2 + part).split(":")
    return folder / base / name


def _sizes(folder: Path) -> dict[str, Any]:
    """Return the bytes of all files that are in a folder."""
    if is_bucket(folder):
        return folder.files()
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_size for path in files}


def _digests(folder: Path, names: list[str]) -> dict[str, str]:
    """Return the sha256 of each file; empty where it is missing."""

    def digest(name: str) -> str:
        if not (folder / name).is_file():
            return ""
        with (folder / name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    with ThreadPoolExecutor() as pool:
        return dict(zip(names, pool.map(digest, names), strict=True))
