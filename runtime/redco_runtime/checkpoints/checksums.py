"""Whether a checkpoint is as it was written: checksums.json in its folder, the sha256 of its files.

Each process reads what it wrote, and has a checksums.json of that in its own folder there. Of objects of a bucket it is their sizes: a store compares what it is sent, and has all of an object or nothing.
"""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax

from ..base.paths import is_bucket
from ..base.together import decide
from .tensors import ITEM, orbax

CHECKSUMS = "checksums.json"
OWN = "ocdbt.process_"  # how the folder begins that a process has for what it writes
REWRITTEN = "_CHECKPOINT_METADATA"  # Orbax adds the time of the commit to it after the checksums


def handlers() -> Any:
    """Return Orbax's handler of a state, as it takes them, whose saves end with the checksums of what this process wrote."""

    class Handler(orbax().PyTreeCheckpointHandler):  # type: ignore[misc]  # of a module that is Any
        async def async_save(self, directory: Any, *args: Any, **options: Any) -> Any:
            return [*await super().async_save(directory, *args, **options), _Own(directory)]

    registry = orbax().DefaultCheckpointHandlerRegistry()
    registry.add(ITEM, orbax().args.PyTreeSave, Handler())
    return registry


class _Own:
    """What Orbax waits for after the writes of a process, before process 0 makes the checkpoint whole."""

    def __init__(self, item: Any) -> None:
        self._item = item  # the folder of the tensors, or what awaits it

    def result(self, timeout: float | None = None) -> None:
        """Write the checksums of the files that this process wrote. Raises OSError."""
        folder = Path(getattr(self._item, "path", self._item)) / f"{OWN}{jax.process_index()}"
        if folder.is_dir():  # there is none in a bucket, nor where nothing was to write
            sums = _digests(folder, sorted(_sizes(folder)))
            (folder / CHECKSUMS).write_text(json.dumps(sums, indent=1))


def write_checksums(folder: Path) -> None:
    """Write checksums.json of all files that are in a folder: read are those that no process wrote as its own."""
    sums: dict[str, Any] = _sizes(folder)
    sums.pop(REWRITTEN, None)
    if not is_bucket(folder):
        of_processes = {
            f"{path.parent.relative_to(folder)}/{name}": digest
            for path in folder.glob(f"{ITEM}/{OWN}*/{CHECKSUMS}")
            for name, digest in json.loads(path.read_text()).items()
        }
        sums = {**of_processes, **_digests(folder, sorted(sums.keys() - of_processes))}
    (folder / CHECKSUMS).write_text(json.dumps(sums, indent=1))


def damage_of(folder: Path) -> str | None:
    """Return what is wrong with a checkpoint. The processes share the files out, and all learn of it."""
    try:
        sums = json.loads((folder / CHECKSUMS).read_text())
    except (OSError, ValueError):
        sums = {}
    names = [CHECKSUMS, *sums]
    own = names[1 + jax.process_index() :: jax.process_count()]
    if own and isinstance(sums[own[0]], int):
        sizes = _sizes(folder)
        digests: dict[str, Any] = {name: sizes.get(name) for name in own}
    else:
        digests = _digests(folder, own)
    bad = [names.index(name) for name, digest in digests.items() if digest != sums[name]]
    first = least(min(bad, default=len(names)) if sums else 0)
    return None if first == len(names) else f"{folder / names[first]} is missing or has changed"


def least(value: int) -> int:
    """Return the least of what the processes say: they may see a shared directory at different ages."""
    return int(decide("the checkpoints that it sees", value, min))


def _sizes(folder: Path) -> dict[str, int]:
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
