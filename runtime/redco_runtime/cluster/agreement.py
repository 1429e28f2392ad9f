"""What all processes of a run must see alike: the work folder, and the examples."""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
from jax.experimental import multihost_utils

from ..base.examples import Example
from ..base.errors import UserError, few, writing
from ..base.progress import PROGRESS
from ..data.example_streams import is_stream

# Seconds until a file of one host is seen by the others: attributes are cached for up to 60 s by NFS.
VISIBLE_WITHIN = 60.0
BARRIER = 7 * 24 * 3600 * 1000  # milliseconds: the lifeline ends what is stuck, and says where
# Examples that are compared, spread over all: a shifted or reordered file differs in most.
SAMPLES = 32


def check_shared(folder: Path) -> None:
    """Raise UserError where `folder` cannot be written, or is another one on some host.

    Checkpoints would otherwise wait for the files of the other processes for an hour.
    """
    if jax.process_count() == 1:
        return
    token = int(multihost_utils.broadcast_one_to_all(np.int32(time.time_ns() % 2**31)))
    path = folder / f".seen-by-all-{token}"
    if jax.process_index() == 0:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            path.touch()
    multihost_utils.sync_global_devices("the work folder has a token")
    until = time.monotonic() + VISIBLE_WITHIN
    while not (seen := path.exists()) and time.monotonic() < until:
        list(folder.glob("*"))  # makes NFS look again
        time.sleep(0.2)
    seen_by = np.atleast_1d(multihost_utils.process_allgather(np.bool_(seen)))
    blind = np.flatnonzero(~seen_by).tolist()
    if jax.process_index() == 0:
        path.unlink(missing_ok=True)
    if blind:
        raise UserError(
            f"--workdir: {folder} is not shared: process {few(blind)} of {jax.process_count()} "
            "cannot see what process 0 writes there; name a folder of a file system that all hosts have"
        )


def wait_for_all(what: str) -> None:
    """Return when all processes have come here, which have had `what` to do for seconds or for an hour.

    Without it the first of them would wait in a collective, some of which give up after 30 s: Gloo's.
    """
    PROGRESS.at(f"a wait for {what} of all")
    if jax.process_count() > 1:
        from orbax.checkpoint.multihost import get_barrier_sync_fn  # late: it takes 0.6 s

        get_barrier_sync_fn()(key=what, timeout_ms=BARRIER)


def check_same_examples(examples: Iterable[Example]) -> None:
    """Raise UserError where the processes have not the same examples: their batches would be wrong.

    Of those without a length it is the first that is compared, and none of an iterator, which would lose it.
    """
    wait_for_all("the data")
    if jax.process_count() == 1 or isinstance(examples, Iterator):
        return
    if is_stream(examples):
        examples = [*islice(examples, 1)]
    examples = cast(Sequence[Example], examples)
    size = len(examples)
    some = sorted({*np.linspace(0, size - 1, SAMPLES).astype(int).tolist()}) if size else []
    words = [digest(size), *(digest(examples[index]) for index in some)]
    # As many words where there are few examples: they are compared with those of many.
    others, column = differing(words + [0] * (SAMPLES + 1 - len(words)))
    if others:
        what = f"example {some[column - 1]}" if column else "the number of examples"
        raise UserError(
            f"examples() in pipeline.py: process {few(others)} has other training examples than "
            f"process 0: {what} differs; give all hosts the same files, and read them in one order"
        )


def differing(words: list[int]) -> tuple[list[int], int]:
    """Return (the processes whose words of 32 bits differ from those of process 0, the first that does)."""
    theirs = multihost_utils.process_allgather(np.array(words, np.uint32))
    others = np.flatnonzero((theirs != theirs[0]).any(axis=1)).tolist()
    return others, int((theirs[others[0]] != theirs[0]).argmax()) if others else 0


def digest(value: Any) -> int:
    """Return 32 bits that stand for the content of nested dicts, lists, arrays and plain values."""
    text = json.dumps(value, sort_keys=True, default=_plain)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


def _plain(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind == "O":
        return str(type(value))
    return [str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest()]
