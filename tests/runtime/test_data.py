import threading
import time
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

from redco_runtime.data.batches import TrainBatches, eval_batches, example_indices, to_global
from redco_runtime.base.messages import UserError

EXAMPLES = [{"id": i} for i in range(10)]


def collate(examples):
    ids = np.array([example["id"] for example in examples], np.int32)
    return {"id": ids, "pair": np.stack([ids, -ids], axis=1)}


@pytest.fixture
def sharding(mesh):
    return NamedSharding(mesh, P("data"))


def train(sharding, examples=EXAMPLES, collate=collate, start=0, stop=5, batch_size=4, **counted):
    settings = SimpleNamespace(seed=1, batch_size=batch_size, steps=stop)
    pipeline = SimpleNamespace(collate=collate, **counted)
    return TrainBatches(examples, pipeline, settings, start=start, sharding=sharding)


def prefetch_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


class History(list):
    """Examples with a history: of each step that is done."""

    def resume(self, start, position):
        self.begin = start, position

    def history(self, step):
        return {"steps": step}


def test_the_position_is_the_history_after_the_batches_that_were_taken(sharding):
    examples = History(EXAMPLES)
    batches = train(sharding, examples, start=2)
    assert examples.begin == (2, None)
    batches.peek()  # which takes none
    for done in (3, 4, 5):
        next(batches)
        assert batches.position == {"steps": done}


def test_an_id_beyond_a_table_is_refused_in_whichever_batch_it_is(sharding):
    batches = train(sharding, stop=3)  # of 10 examples: the id 9 is in one of three batches
    batches.keep_within({"id": 10, "of no batch": 1})
    later = next(step for step in range(3) if 9 in batches.indices(step))
    batches.keep_within({"id": 10})
    with pytest.raises(UserError, match="id .* 9, of example 9, .* 9 rows: give ids below 9"):
        batches.keep_within({"id": 9})
        for _ in range(later + 1):
            next(batches)
    assert batches.step == later


class Streamed:
    """Examples that are read from places on."""

    def begin(self, seed, batch_size, places):
        self.begun = seed, batch_size, places

    def take(self, step, positions):
        self.position = [[step, len(positions)]]
        return [EXAMPLES[i] for i in positions]


def test_the_position_is_the_places_that_were_read_up_to(sharding):
    examples = Streamed()
    batches = train(sharding, examples)
    assert examples.begun == (1, 4, None)
    for step in range(5):
        assert next(batches)["id"].tolist() == [0, 1, 2, 3]
        assert batches.position == {"places": [[step, 4]]}


@pytest.mark.parametrize("batch_size, size", [(4, 10), (8, 3), (1, 7), (5, 5), (7, 1)])
def test_rows_are_whole_epochs_laid_end_to_end(batch_size, size):
    batches = [example_indices(3, step, batch_size, size) for step in range(3 * size)]
    assert {(batch.shape, batch.dtype.name) for batch in batches} == {((batch_size,), "int64")}
    for epoch in np.concatenate(batches).reshape(-1, size):
        assert sorted(epoch) == list(range(size))


def test_rows_differ_by_seed_and_epoch():
    epochs = [
        tuple(example_indices(seed, epoch, 50, 50)) for seed in range(3) for epoch in range(3)
    ]
    assert len(set(epochs)) == 9


def test_the_order_of_a_seed_never_changes():
    assert example_indices(0, 0, 8, 10).tolist() == [0, 2, 9, 1, 8, 5, 4, 3]
    assert example_indices(2**40, 10**12, 4, 1000).tolist() == [595, 884, 369, 862]
    assert sorted(example_indices(-1, 0, 4, 4)) == [0, 1, 2, 3]


def test_rows_are_cheap_within_an_epoch():
    example_indices(0, 0, 32, 100_000)
    start = time.perf_counter()
    for step in range(100):
        example_indices(0, step, 32, 100_000)
    assert time.perf_counter() - start < 0.1


def test_no_examples_is_a_clear_error(sharding):
    with pytest.raises(UserError, match="no training examples"):
        next(train(sharding, examples=[]))


@pytest.mark.parametrize("spec", [P("data"), P(("data", "model")), P(), P(None), P("model")])
def test_to_global_places_every_row(mesh, spec):
    sharding = NamedSharding(mesh, spec)
    batch = to_global(sharding, 8, lambda at: {"x": at * 10, "y": np.eye(8, dtype=bool)[at]})
    assert batch["x"].tolist() == list(range(0, 80, 10))
    assert np.array_equal(batch["y"], np.eye(8, dtype=bool))
    assert batch["y"].sharding.is_equivalent_to(sharding, 2)


def test_a_batch_that_does_not_divide_is_refused(mesh):
    sharding = NamedSharding(mesh, P(("data", "model")))
    with pytest.raises(ValueError, match="partitioned 4 times, but the dimension size is 6"):
        to_global(sharding, 6, lambda at: {"x": at})


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (np.zeros(3), r"gave x the shape \(3,\), whose first dim is not 4"),
        (np.float32(1), r"gave x the shape \(\), whose first dim is not 4"),
        (np.array([{}] * 4), "gave x the dtype object, which no device has"),
    ],
)
def test_arrays_that_are_no_batch_are_named(sharding, wrong, fault):
    where = r"\nof example \d+, \d+, \d+, \d+, at .*test_data.py:\d+: mend it there"
    with pytest.raises(UserError, match=f"collate {fault}{where}"):
        next(train(sharding, collate=lambda examples: {"x": wrong}))


def test_a_batch_laid_out_unlike_those_before_is_named(sharding):
    width = iter(range(3, 9))
    batches = train(sharding, collate=lambda rows: {"x": np.zeros((len(rows), next(width) // 4))})
    with pytest.raises(UserError, match=r"gave x float64\[1\] for each, and float64\[0\] for"):
        list(batches)


def test_a_fault_in_a_library_is_named_by_the_line_that_called_it(sharding):
    torn = [{"id": [[i], [i, i]]} for i in range(10)]
    with pytest.raises(UserError, match=r"ValueError.*\nof example \d+, at .*test_data.py:\d+"):
        next(train(sharding, examples=torn))


OTHER = {
    "without a label": ({"x": 1.0}, r"gave y nothing for each, and float64\[\] for others"),
    "of another shape": (
        {"x": 1.0, "y": [2.0]},
        r"gave y float64\[1\] for each, and float64\[\] for",
    ),
    "with more": (
        {"x": 1.0, "y": 2.0, "z": 0},
        r"gave z int64\[\] for each, and nothing for others",
    ),
}


@pytest.mark.parametrize("other, says", OTHER.values(), ids=OTHER)
@pytest.mark.parametrize("place", [0, 2, 6])  # first in a batch, within one, in a later one
def test_an_example_unlike_the_others_is_named(sharding, place, other, says):
    order = np.concatenate([example_indices(1, step, 4, 10) for step in range(2)])
    bad = int(order[place])
    examples = [other if i == bad else {"x": 1.0, "y": 2.0} for i in range(10)]

    def stack(rows):
        names = {name for row in rows for name in row}
        return {name: np.stack([row[name] for row in rows]) for name in names}

    with pytest.raises(UserError, match=rf"collate {says}.*\nof example {bad}, at"):
        [*train(sharding, examples=examples, collate=stack, stop=2)]


def test_batches_are_those_of_rows_wherever_the_run_starts(sharding):
    batches = [batch["id"].tolist() for batch in train(sharding)]
    assert batches == [example_indices(1, step, 4, 10).tolist() for step in range(5)]
    assert [batch["id"].tolist() for batch in train(sharding, start=3)] == batches[3:]


def test_two_batches_are_made_ahead(sharding):
    made = threading.Semaphore(0)
    count = []

    def counted(examples):
        count.append(len(examples))
        made.release()
        return collate(examples)

    batches = train(sharding, collate=counted)
    next(batches)
    for _ in range(3):
        assert made.acquire(timeout=5)
    time.sleep(0.05)
    assert count == [4, 4, 4]
    del batches
    assert not prefetch_threads()


def test_a_batch_that_is_peeked_at_is_the_next_one(sharding):
    batches = train(sharding)
    assert batches.peek() is batches.peek() and batches.count == 0
    assert batches.peek() is next(batches) and batches.count == 4


def test_batches_count_what_the_pipeline_says(sharding):
    batches = train(sharding)
    assert (batches.unit, batches.count, len(list(batches)), batches.count) == (
        "examples",
        0,
        5,
        20,
    )
    ids = {"UNIT": "ids", "count": lambda batch: batch["id"].sum()}
    batches = train(sharding, **ids)
    assert batches.unit == "ids" and batches.peek_count() == batches.peek()["id"].sum()
    assert sum(batch["id"].sum() for batch in batches) == batches.count


@pytest.mark.parametrize("half", [{"UNIT": "ids"}, {"count": len}])
def test_half_of_a_unit_is_none(sharding, half):
    assert train(sharding, **half).unit == "examples"


def test_a_bad_example_is_named_at_its_batch(sharding):
    order = np.concatenate([example_indices(1, step, 4, 10) for step in range(2)])
    bad = int(order[6])
    examples = [{} if i == bad else {"id": i} for i in range(10)]
    batches = train(sharding, examples=examples)
    assert next(batches)["id"].tolist() == order[:4].tolist()
    with pytest.raises(
        UserError, match=rf"KeyError: 'id'\nof example {bad}, at .*test_data.py:\d+"
    ):
        next(batches)
    assert not prefetch_threads()


def test_examples_that_fail_only_together_are_all_named(sharding):
    def needs_one(examples):
        (example,) = examples
        return collate([example])

    with pytest.raises(UserError, match=r"ValueError.*\nof example \d+, \d+, \d+, \d+,"):
        next(train(sharding, collate=needs_one))


def test_the_thread_ends_with_its_consumer(sharding):
    for _ in train(sharding, stop=10**9):
        assert prefetch_threads()
        break
    assert not prefetch_threads()
    assert len(list(train(sharding))) == 5
    assert not prefetch_threads()


@pytest.mark.parametrize("size", [0, 3, 8, 10])
def test_eval_sees_every_example_once(sharding, size):
    seen = []
    for batch, valid_B, indices, _ in eval_batches(
        EXAMPLES[:size], collate, batch_size=4, sharding=sharding
    ):
        assert batch["id"].shape == valid_B.shape == (4,)
        assert valid_B.dtype == bool and valid_B.sharding.is_equivalent_to(sharding, 1)
        assert np.asarray(valid_B).tolist() == [i < len(indices) for i in range(4)]
        ids = batch["id"].tolist()
        assert ids[: len(indices)] == indices.tolist()
        assert set(ids[len(indices) :]) <= {ids[0]}
        seen += indices.tolist()
    assert seen == list(range(size))


def test_the_batch_is_on_the_devices_before_it_is_asked_for(sharding):
    batch = next(train(sharding))
    assert isinstance(batch["pair"], jax.Array)
    assert {shard.data.shape for shard in batch["pair"].addressable_shards} == {(2, 2)}
