"""From a list of examples to global batches on the devices.

What a batch holds is a pure function of (seed, step): the number of processes or devices, and the
step at which a run was resumed, change nothing.
"""

import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from redco_runtime.errors import UserError

Arrays = dict[str, np.ndarray]
Batch = dict[str, jax.Array]
Collate = Callable[[list[Any]], Arrays]


def rows(seed: int, step: int, batch_size: int, size: int) -> np.ndarray:
    """Indices of the examples in the global batch `step`: int64 (batch_size,).

    Epochs are permutations of `size`, laid end to end. Raises UserError where `size` is 0.
    """
    if size < 1:
        raise UserError("no training examples: see what examples() in pipeline.py returns")
    epochs, offsets = np.divmod(np.arange(step * batch_size, (step + 1) * batch_size), size)
    parts = [_epoch(seed, int(e), size)[offsets[epochs == e]] for e in np.unique(epochs)]
    return np.concatenate(parts)


@lru_cache(maxsize=2)
def _epoch(seed: int, epoch: int, size: int) -> np.ndarray:
    # NumPy keeps the raw words of Philox for ever; Generator.permutation may change by release.
    words = np.random.Philox(key=np.array([seed % 2**64, epoch], np.uint64)).random_raw(size)
    return np.argsort(words, kind="stable")


def to_global(
    sharding: NamedSharding, batch_size: int, collate_rows: Callable[[np.ndarray], Arrays]
) -> Batch:
    """Global arrays with first dim `batch_size`, of which this process collates its rows only.

    `collate_rows(positions)` gets, ascending and once each, the positions (0..batch_size-1) that
    the devices of this process hold. `sharding` splits the first dim alone. Raises ValueError where
    `batch_size` does not divide over its mesh axes, and for arrays of another first dim.
    """
    held = sharding.addressable_devices_indices_map((batch_size,)).values()
    positions = np.unique(np.concatenate([np.arange(batch_size)[index] for index in held]))
    batch = {}
    for name, value in collate_rows(positions).items():
        value, count = np.asarray(value), len(positions)
        if value.shape[:1] != (count,):
            raise ValueError(f"collate gave {name} the shape {value.shape} for {count} examples")
        # Given the global shape, JAX refuses rows that do not fit where it would else guess one.
        shape = (batch_size, *value.shape[1:])
        batch[name] = jax.make_array_from_process_local_data(sharding, value, shape)
    return batch


def train_batches(
    examples: Sequence[Any],
    collate: Collate,
    *,
    seed: int,
    batch_size: int,
    start: int,
    stop: int,
    sharding: NamedSharding,
) -> Iterator[Batch]:
    """The global batches of steps start..stop-1, two of them made ahead and already on the devices.

    Raises UserError, at the batch that holds it, naming an example that collate fails on.
    """

    def batch(step: int) -> Batch:
        indices = rows(seed, step, batch_size, len(examples))
        return to_global(sharding, batch_size, lambda at: _collate(examples, collate, indices[at]))

    return _prefetch(batch, range(start, stop))


def eval_batches(
    examples: Sequence[Any], collate: Collate, *, batch_size: int, sharding: NamedSharding
) -> Iterator[tuple[Batch, jax.Array, np.ndarray]]:
    """Every example once and in order: (batch, valid_B, indices), made ahead as in training.

    The last batch is filled up with copies of its row 0, where valid_B is False. `indices` has the
    examples alone: row i of the batch is examples[indices[i]] for i < len(indices).
    """

    def batch(first: int) -> tuple[Batch, jax.Array, np.ndarray]:
        indices = np.arange(first, min(first + batch_size, len(examples)))
        padded = np.pad(indices, (0, batch_size - len(indices)), constant_values=first)
        arrays = to_global(sharding, batch_size, lambda at: _collate(examples, collate, padded[at]))
        valid = to_global(sharding, batch_size, lambda at: {"valid": at < len(indices)})
        return arrays, valid["valid"], indices

    return _prefetch(batch, range(0, len(examples), batch_size))


def _collate(examples: Sequence[Any], collate: Collate, indices: Sequence[int]) -> Arrays:
    try:
        return collate([examples[int(index)] for index in indices])
    except Exception as error:
        if len(indices) > 1:
            for index in indices:  # the one that fails alone is the one to name
                _collate(examples, collate, [index])
        at = traceback.extract_tb(error.__traceback__)[-1]
        raise UserError(
            f"collate failed on example {', '.join(map(str, indices))}: "
            f"{type(error).__name__}: {error}\n"
            f"at {at.filename}:{at.lineno}: mend it there, or leave the example out in examples()"
        ) from error


def _prefetch(make: Callable[[int], Any], keys: Iterable[int], ahead: int = 2) -> Iterator[Any]:
    """make(key) of each key, in order, by a thread that works up to `ahead` of them ahead."""
    pool, made = ThreadPoolExecutor(1, "prefetch"), deque()
    try:
        for key in keys:
            made.append(pool.submit(make, key))
            if len(made) > ahead:
                yield made.popleft().result()
        while made:
            yield made.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
