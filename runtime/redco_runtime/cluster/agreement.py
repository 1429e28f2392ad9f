"""What all processes of a run must see alike: the work folder, and the examples."""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np

from ..base.examples import Example
from ..base.messages import UserError, few
from ..base.progress import PROGRESS
from ..base.together import decide, of_first
from ..data.example_streams import is_stream
from ..run.lock import owner_of

# Seconds until a file of one host is seen by the others: attributes are cached for up to 60 s by NFS.
VISIBLE_WITHIN = 60.0
SAMPLES = 32  # examples that are compared, spread over all: a shifted file differs in most


def check_shared(folder: Path) -> None:
    """Raise UserError where `folder`, which process 0 has taken, is another one on this host: a save would wait for its files."""
    said = of_first("the work folder", lambda: owner_of(folder))
    until = time.monotonic() + VISIBLE_WITHIN
    while owner_of(folder) != said:
        if time.monotonic() > until:
            raise UserError(
                f"--workdir: {folder} is not shared: process {jax.process_index()} of "
                f"{jax.process_count()} cannot see what process 0 writes there; name a folder of a "
                "file system that all hosts have"
            )
        list(folder.glob("*"))  # makes NFS look again
        time.sleep(0.2)


def check_same_examples(examples: Iterable[Example]) -> None:
    """Raise UserError where the processes have not the same examples: their batches would be wrong.

    Of those without a length it is the first that is compared, and none of an iterator, which would lose it.
    """
    PROGRESS.at("a wait for the data of all")
    if jax.process_count() == 1 or isinstance(examples, Iterator):
        return
    if is_stream(examples):
        examples = [*islice(examples, 1)]
    words = sample(cast(Sequence[Example], examples))
    others, column = decide("the data", [*words.values()], _compare)
    if others:
        what = f"example {[*words][column]}" if column else "the number of examples"
        raise UserError(
            f"examples() in pipeline.py: process {few(others)} has other training examples than "
            f"process 0: {what} differs; give all hosts the same files, and read them in one order"
        )


def sample(examples: Sequence[Example]) -> dict[int, int]:
    """Return 32 bits that stand for how many there are, at -1, and for each of SAMPLES of them, by its index."""
    size = len(examples)
    some = sorted({*np.linspace(0, size - 1, SAMPLES).astype(int).tolist()}) if size else []
    return {-1: _digest(size)} | {index: _digest(examples[index]) for index in some}


def known_by(examples: Any) -> list[int] | None:
    """Return what tells examples from others in starts.jsonl: how many they are, and a digest; None of a stream."""
    return None if is_stream(examples) else [len(examples), _digest([*sample(examples).values()])]


def _compare(theirs: list[list[int]]) -> tuple[list[int], int]:
    others = [index for index, words in enumerate(theirs) if words != theirs[0]]
    pairs = zip_longest(theirs[0], theirs[others[0]]) if others else ()
    return others, next((column for column, (a, b) in enumerate(pairs) if a != b), 0)


def _digest(value: Any) -> int:
    """Return 32 bits that stand for the content of nested dicts, lists, arrays and plain values."""
    text = json.dumps(value, sort_keys=True, default=_plain)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


def _plain(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind == "O":
        return str(type(value))
    return [str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest()]
