"""Examples without a length: the same batches wherever a run starts, by their state or by reading them again."""

import json
from itertools import count, islice

import numpy as np
import pytest

from redco_runtime.base.messages import UserError
from redco_runtime.data.example_streams import check_held_out, is_stream
from redco_runtime.data.iterators import Stream

SIZE, BATCH = 10, 4


class Plain:
    """An epoch is 0 to 9, from its own number on."""

    def __init__(self):
        self.read, self.epoch = 0, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def numbers(self, start=0):
        for place in range(start, SIZE):
            self.read += 1
            yield 100 * self.epoch + place

    def __iter__(self):
        return self.numbers()


class Whole(Plain):
    """Whose state is its own, as of datasets."""

    at, begin = 0, 0

    def state_dict(self):
        return {"at": self.at, "epoch": self.epoch}

    def load_state_dict(self, state):
        assert self.epoch == state["epoch"]
        self.begin = state["at"]

    def __iter__(self):
        begin, self.begin = self.begin, 0
        for place, number in enumerate(self.numbers(begin), begin + 1):
            self.at = place
            yield number


class Iterated(Plain):
    """Whose iterators have the state, as of Grain."""

    class Iterator:
        def __init__(self, whole):
            self.whole, self.at = whole, 0

        def __iter__(self):
            return self

        def __next__(self):
            if self.at == SIZE:
                raise StopIteration
            self.at += 1
            self.whole.read += 1
            return 100 * self.whole.epoch + self.at - 1

        def get_state(self):
            return {"at": self.at}

        def set_state(self, state):
            self.at = state["at"]

    def __iter__(self):
        return self.Iterator(self)


EXPECTED = [100 * epoch + place for epoch in range(3) for place in range(SIZE)]
KINDS = {"plain": (Plain, False), "whole": (Whole, True), "iterated": (Iterated, True)}


@pytest.mark.parametrize(("kind", "stateful"), KINDS.values(), ids=KINDS)
def test_batches_go_on_where_a_run_was_stopped(kind, stateful, capfd):
    straight = Stream(kind(), BATCH)
    for step in range(7):
        position = json.loads(json.dumps(straight.position))
        batch = straight.take(0, range(BATCH))
        assert batch == EXPECTED[step * BATCH : (step + 1) * BATCH]
        resumed = kind()
        assert Stream(resumed, BATCH, step, position).take(0, range(BATCH)) == batch
        before = 0 if stateful else position["done"]
        assert resumed.read == BATCH + before
        said = f"saved, so {before} examples are read again, and left out" in capfd.readouterr().out
        assert said == bool(before)
        # A checkpoint without the position: by the number of steps alone.
        assert Stream(kind(), BATCH, step).take(0, range(BATCH)) == batch


def test_a_state_that_no_json_has_is_not_saved():
    class Arrays(Whole):
        def state_dict(self):
            return np.zeros(2)

    stream = Stream(Arrays(), BATCH)
    stream.take(0, range(BATCH))
    assert stream.position == {"epoch": 0, "done": BATCH, "state": None}


def test_an_iterator_has_one_epoch():
    stream = Stream(iter(range(SIZE)), BATCH)
    assert [stream.take(0, range(BATCH)) for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    with pytest.raises(UserError, match="ends after 10 examples, 2 steps of 4: give --steps 2, or"):
        stream.take(0, range(BATCH))
    assert Stream(count(), 2, 5).take(0, range(2)) == [10, 11]
    with pytest.raises(UserError, match="no training examples"):
        Stream(range(0), 2).take(0, range(2))


def test_what_is_no_stream_is_named():
    assert is_stream(islice(range(3), 2)) and not is_stream(np.zeros(3))
    with pytest.raises(UserError, match="gives NoneType to train on: give what has __len__ and"):
        is_stream(None)
    with pytest.raises(UserError, match="gives range_iterator of held-out examples: give a list"):
        check_held_out(iter(range(3)))
    check_held_out([])
