"""Examples that come one after the other: read by position, and resumed by it, or by the state of their iterator."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from ..base.examples import Example
from ..base.messages import UserError, print_once
from ..base.progress import PROGRESS

# What reads and what sets where an iterator is: of datasets and PyTorch; of Grain.
STATES = (("state_dict", "load_state_dict"), ("get_state", "set_state"))
LOOK = 1000  # examples that are left out between two signs of life


class Stream:
    """The examples of an iterable, which each epoch begins anew, or of an iterator, which has one.

    An epoch ends as the iterator does; batches go on over that. With `set_epoch(epoch)` the examples have an order for each.
    step: the first batch. position: what `position` was before it, where that was saved.
    """

    def __init__(
        self,
        examples: Iterable[Example],
        batch_size: int,
        step: int = 0,
        position: Mapping[str, Any] | None = None,
    ) -> None:
        self._examples, self._batch_size = examples, batch_size
        at = position or {"epoch": 0, "done": step * batch_size, "state": None}
        if self._begin(at["epoch"], at["state"]):
            self._done = at["done"]
        elif at["done"]:
            print_once(
                "examples() in pipeline.py: its iterator has no state that is saved, so "
                f"{at['done']:,} examples are read again, and left out"
            )
            for number, _ in enumerate(self._next(at["done"])):
                if number % LOOK == 0:
                    PROGRESS.at("the examples before this step")

    def take(self, step: int, places: Iterable[int]) -> list[Example]:
        """Return these places of the next batch. Raises UserError where there are no more examples."""
        batch = [*self._next(self._batch_size)]
        return [batch[place] for place in places]

    @property
    def position(self) -> dict[str, Any]:
        """Where it is, as JSON has it: the epoch, how many of it are done, the state of its iterator."""
        state = self._get() if self._get else None
        try:
            state = json.loads(json.dumps(state))
        except TypeError:
            state = None
        return {"epoch": self._epoch, "done": self._done, "state": state}

    def _begin(self, epoch: int, state: Any = None) -> bool:
        """Start an epoch; return whether it goes on from a state."""
        self._epoch, self._done = epoch, 0
        if hasattr(self._examples, "set_epoch"):
            self._examples.set_epoch(epoch)
        self._get, put = _ways(self._examples)
        if put and state is not None:
            put(state)
        self._iterator = iter(self._examples)
        if self._get is None:
            self._get, put = _ways(self._iterator)
            if put and state is not None:
                put(state)
        return put is not None and state is not None

    def _next(self, count: int) -> Iterator[Example]:
        while count:
            for example in islice(self._iterator, count):
                count -= 1
                self._done += 1
                yield example
            if count and self._iterator is self._examples:
                size, steps = self._done, self._done // self._batch_size
                raise UserError(
                    f"examples() in pipeline.py: its iterator ends after {size} examples, {steps} steps of "
                    f"{self._batch_size}: give --steps {steps}, or return an object whose __iter__ begins anew"
                )
            if count and not self._done:
                raise UserError("no training examples: see what examples() in pipeline.py returns")
            if count:
                self._begin(self._epoch + 1)


def _ways(holder: object) -> tuple[Callable[[], Any] | None, Callable[[Any], None] | None]:
    """Return what reads the state of an iterator, and what sets it."""
    for get, put in STATES:
        if hasattr(holder, get) and hasattr(holder, put):
            return getattr(holder, get), getattr(holder, put)
    return None, None
