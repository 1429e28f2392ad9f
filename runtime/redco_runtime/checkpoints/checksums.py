"""Whether a checkpoint is as it was written: checksums.json in its folder, the sha256 of its files."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
from jax.experimental import multihost_utils

CHECKSUMS = "checksums.json"
REWRITTEN = "_CHECKPOINT_METADATA"  # Orbax adds the time of the commit to it after the checksums


def write_checksums(folder: Path) -> None:
    """Write checksums.json of all files that are in a folder."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != REWRITTEN]
    names = sorted(str(path.relative_to(folder)) for path in files)
    (folder / CHECKSUMS).write_text(json.dumps(_digests(folder, names), indent=1))


def damage_of(folder: Path) -> str | None:
    """Return what is wrong with a checkpoint. The processes share the files out, and all learn of it."""
    try:
        sums = json.loads((folder / CHECKSUMS).read_text())
    except (OSError, ValueError):
        sums = {}
    names = [CHECKSUMS, *sums]
    digests = _digests(folder, names[1 + jax.process_index() :: jax.process_count()])
    bad = [names.index(name) for name, digest in digests.items() if digest != sums[name]]
    first = least(min(bad, default=len(names)) if sums else 0)
    return None if first == len(names) else f"{folder / names[first]} is missing or has changed"


def least(value: int) -> int:
    """Return the least of what the processes say: they may see a shared directory at different ages."""
    return int(np.min(multihost_utils.process_allgather(np.int32(value))))


def _digests(folder: Path, names: list[str]) -> dict[str, str]:
    """Return the sha256 of each file; empty where it is missing."""

    def digest(name: str) -> str:
        if not (folder / name).is_file():
            return ""
        with open(folder / name, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    with ThreadPoolExecutor() as pool:
        return dict(zip(names, pool.map(digest, names), strict=True))
