"""From a list of examples to global batches on the devices.

What a batch holds is a pure function of (seed, step): the number of processes or devices, and the
step at which a run was resumed, change nothing.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any, TypeVar, cast

import jax
import numpy as np
from jax.sharding import NamedSharding

from ..base.contracts import Accounted, Batch, Counted, Ordered, Pipeline
from ..base.examples import Arrays, Example, Redrawn
from ..base.messages import UserError, feature
from ..base.progress import PROGRESS
from ..base.together import decide
from .collating import Collate, Largest, Layout, check_ids, collate_examples, largest_numbers
from .example_streams import Spread, is_stream
from .permutation import shuffled

# (batch, valid_B, indices, its largest numbers)
EvalBatches = Iterator[tuple[Batch, jax.Array, np.ndarray, Largest]]
# A batch, its count, the position after it, its largest numbers.
Made = tuple[Batch, float, Any, Largest]
Key = TypeVar("Key")
Item = TypeVar("Item")

# Batches that are made before they are asked for: more hide a slower collate, and take more of the devices.
AHEAD = 2
NO_LENGTH = "examples() in pipeline.py: what it gives to train on has no length"


def example_indices(seed: int, step: int, batch_size: int, size: int) -> np.ndarray:
    """Return the indices of the examples in the global batch `step`: int64 (batch_size,).

    Epochs are permutations of `size`, laid end to end. Raises UserError where `size` is 0.
    """
    if size < 1:
        raise UserError("no training examples: see what examples() in pipeline.py returns")
    epochs, offsets = np.divmod(step * batch_size + np.arange(batch_size), size)
    parts = [shuffled(seed, int(e), size, offsets[epochs == e]) for e in np.unique(epochs)]
    return np.concatenate(parts)


def batch_indices(examples: Sized, seed: int, step: int, batch_size: int) -> np.ndarray:
    """Return the same of examples, in an order of their own where they have one."""
    examples = examples.examples if isinstance(examples, Redrawn) else examples
    if isinstance(examples, Ordered):
        return examples.order(seed, step * batch_size, (step + 1) * batch_size)
    return example_indices(seed, step, batch_size, len(examples))


def to_global(
    sharding: NamedSharding, batch_size: int, collate_rows: Callable[[np.ndarray], Arrays]
) -> Batch:
    """Return global arrays with first dim `batch_size`; this process collates its rows only.

    `collate_rows(positions)` gets, ascending and once each, the positions (0..batch_size-1) that
    the devices of this process hold. `sharding` splits the first dim alone. Raises ValueError where
    `batch_size` does not divide over its mesh axes.
    """
    indices = sharding.addressable_devices_indices_map((batch_size,)).values()
    positions = np.unique(np.concatenate([np.arange(batch_size)[index] for index in indices]))
    batch = {}
    for name, value in collate_rows(positions).items():
        # With the global shape, JAX refuses rows that do not fit where it would else guess one.
        shape = (batch_size, *value.shape[1:])
        batch[name] = jax.make_array_from_process_local_data(sharding, value, shape)
    return batch


class TrainBatches(Iterator[Batch]):
    """The global batches of the steps from `start` on, AHEAD of them made ahead and already on the devices.

    unit: what the pipeline counts its throughput in, "examples" where it does not say.
    count: how many of them were in the batches taken so far.
    position: where examples without a length go on, as a checkpoint has it.
    step: how many are done before the next batch.
    Raises UserError, at the batch that holds it, naming an example that collate makes no such batch of, or
    with an id that `keep_within` does not let pass.
    """

    def __init__(
        self,
        examples: Iterable[Example],
        pipeline: Pipeline,
        settings: Any,
        *,
        start: int,
        sharding: NamedSharding,
        position: Mapping[str, Any] | None = None,
    ) -> None:
        batch_size, seed = settings.batch_size, settings.seed
        # As of text/streaming.py: places of a batch have their own.
        if stream := cast(Any, examples if hasattr(examples, "begin") else None):
            stream.begin(seed, batch_size, (position or {}).get("places", []) if start else None)
        elif is_stream(examples):
            own = feature("iterators", "data.iterators", NO_LENGTH)
            stream = own.Stream(examples, batch_size, start, position if start else None)
        if isinstance(examples, Accounted):
            examples.resume(start, position)
        layout: Layout = {}

        def indices_of(step: int) -> np.ndarray:
            if stream:
                return step * batch_size + np.arange(batch_size)
            return batch_indices(cast(Sized, examples), seed, step, batch_size)

        def passes_of(step: int) -> np.ndarray:
            if isinstance(examples, Redrawn):
                return examples.passes(seed, step * batch_size, (step + 1) * batch_size)
            return np.zeros(batch_size, np.int64)

        def make(step: int) -> Made:
            indices, passes = indices_of(step), passes_of(step)
            count, largest = float(batch_size), {}
            some: Any = examples

            def collate_rows(positions: np.ndarray) -> Arrays:
                nonlocal count, largest, some
                own = indices[positions], passes[positions]
                if stream:
                    some = dict(zip(own[0].tolist(), stream.take(step, positions), strict=True))
                arrays = collate_examples(some, pipeline.collate, *own, layout)
                largest = largest_numbers(arrays, own[0])
                if isinstance(pipeline, Counted):
                    # The rows of other processes are taken to hold as much.
                    count = float(pipeline.count(arrays)) * batch_size / len(positions)
                return arrays

            batch = to_global(sharding, batch_size, collate_rows)
            if isinstance(examples, Accounted):
                return batch, count, examples.history(step + 1), largest
            return batch, count, stream.position if stream else None, largest

        self.unit = pipeline.UNIT if isinstance(pipeline, Counted) else "examples"
        self.indices = indices_of  # step (those before it, so from 0) -> the examples in its batch
        self.count, self._at, self.step = 0.0, cast(Any, position), start
        self._tables: Mapping[str, int] = {}
        self._batches: Iterator[Made] = prefetch(make, range(start, settings.steps), AHEAD)

    @property
    def position(self) -> Mapping[str, Any] | None:
        """Where examples without a length are after these, for a checkpoint: all processes ask, and say where theirs are."""
        if isinstance(self._at, list):
            return {"places": decide("the examples", self._at, lambda parts: sum(parts, []))}
        return self._at

    def keep_within(self, tables: Mapping[str, int]) -> None:
        """Refuse ids that `tables` have no row for, as of step/tables.py: in the next batch, and in those after it."""
        self._tables = tables
        check_ids(self._peek()[3], tables)

    def peek(self) -> Batch:
        """Return the next batch, which stays the next one."""
        return self._peek()[0]

    def peek_count(self) -> float:
        """Return how many of `unit` that one has."""
        return self._peek()[1]

    def _peek(self) -> Made:
        following = next(self._batches)
        self._batches = chain([following], self._batches)
        return following

    def __next__(self) -> Batch:
        PROGRESS.at("the examples", self.step)
        batch, amount, self._at, largest = next(self._batches)
        check_ids(largest, self._tables)
        PROGRESS.at("the devices", self.step)
        self.step += 1
        self.count += amount
        return batch


def eval_batches(
    examples: Sequence[Example], collate: Collate, *, batch_size: int, sharding: NamedSharding
) -> EvalBatches:
    """Return every example once and in order: (batch, valid_B, indices, largest), made ahead as in training.

    Raises UserError as `TrainBatches`; of a Spread it names an example by its number in the whole.

    The last batch is filled up with copies of its row 0, where valid_B is False. `indices` has the
    examples alone: row i of the batch is examples[indices[i]] for i < len(indices).
    """

    spread = examples if isinstance(examples, Spread) else Spread(examples, 0)

    def make(first: int) -> tuple[Batch, jax.Array, np.ndarray, Largest]:
        indices = np.arange(first, min(first + batch_size, len(examples)))
        padded = np.pad(indices, (0, batch_size - len(indices)), constant_values=first)
        numbers, largest = spread.numbers[padded], Largest()

        def collate_rows(positions: np.ndarray) -> Arrays:
            arrays = collate_examples(spread.whole, collate, numbers[positions])
            largest.update(largest_numbers(arrays, numbers[positions]))
            return arrays

        batch = to_global(sharding, batch_size, collate_rows)
        valid = to_global(sharding, batch_size, lambda at: {"valid": at < len(indices)})
        return batch, valid["valid"], indices, largest

    return prefetch(make, range(0, len(examples), batch_size), AHEAD)


def prefetch(make: Callable[[Key], Item], keys: Iterable[Key], ahead: int) -> Iterator[Item]:
    """Yield make(key) of each key, in order, by a thread that works up to `ahead` of them ahead."""
    pool, pending = ThreadPoolExecutor(1, "prefetch"), deque[Future[Item]]()
    try:
        for key in keys:
            pending.append(pool.submit(make, key))
            if len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
