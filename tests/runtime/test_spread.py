"""Evaluations that read some of the held-out examples: which ones, and what is said of it."""

from dataclasses import dataclass

import jax.numpy as jnp
import linear
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from linear import PIPELINE, Config, Train, examples, read

from redco_runtime.data.batches import eval_batches
from redco_runtime.base.messages import UserError
from redco_runtime.loop.evaluation import Inference
from redco_runtime.run.record import Run
from redco_runtime.data.example_streams import Spread
from redco_runtime.base.state import ModelState


@dataclass(frozen=True)
class Bounded(Train):
    eval_rows: int = 3


@pytest.fixture
def losses(emitted, steps, tmp_path, monkeypatch):
    """losses(settings): those of a run's evaluations, of 8 held-out examples."""
    monkeypatch.setattr(PIPELINE, "examples", lambda config: (examples(10), examples(8)))

    def losses(settings):
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        emitted.train(steps, Run(folder, Config(train=settings), linear.MESH, None))
        return [line["loss"] for line in read(folder / "eval.jsonl")]

    return losses


def test_examples_are_as_far_from_each_other_as_they_can_be():
    assert [*Spread(range(8), 3)] == [0, 2, 5]
    assert [*Spread(range(8), 0)] == [*Spread(range(8), 8)] == [*Spread(range(8), 9)] == [*range(8)]
    assert len(Spread([], 3)) == len(Spread([], 0)) == 0
    for size, most in ((1000, 999), (10**10, 7)):
        steps = np.diff([*Spread(range(size), most), size])
        assert len(steps) == most and steps.max() - steps.min() <= 1
    assert Spread(range(8), 3)[1:] == [2, 5]


@pytest.mark.parametrize("size", [2, 4, 8])
def test_the_loss_is_that_of_the_same_examples_whatever_the_batch(steps, size):
    model, config = ModelState({"w": jnp.arange(4.0)}, {}), Config(train=Train(batch_size=size))
    x = np.stack([examples(8)[i]["x"] for i in (0, 2, 5)])
    loss = Inference(steps, PIPELINE, config).mean_loss(model, Spread(examples(8), 3))
    np.testing.assert_allclose(loss, np.mean((x @ np.arange(4.0) - 1) ** 2), 1e-6)


def test_a_run_reads_as_many_as_it_is_set_to_and_says_so_once(losses, capsys):
    said = (
        "an evaluation reads 3 of 8 held-out examples, from all over them: --eval-rows 0 reads all"
    )
    some, lines = losses(Bounded(eval_rows=3)), capsys.readouterr().out
    assert lines.count(said) == 1 and len(some) == 3
    whole = losses(Bounded(eval_rows=0))
    assert whole[1:] != some[1:]
    # All that there are; and a config.py from before it was a setting.
    assert losses(Bounded(eval_rows=8)) == losses(Train()) == whole
    assert "an evaluation reads" not in capsys.readouterr().out


def test_fewer_than_none_are_refused(losses):
    with pytest.raises(UserError, match="--eval-rows: -1: give a number of 0 or more"):
        losses(Bounded(eval_rows=-1))


def test_a_fault_is_named_by_its_number_among_all(mesh):
    rows = Spread([{"x": i} for i in range(8)], 3)

    def collate(some):
        assert all(row["x"] != 5 for row in some)
        return {"x": np.array([row["x"] for row in some])}

    batches = eval_batches(rows, collate, batch_size=2, sharding=NamedSharding(mesh, P("data")))
    with pytest.raises(UserError, match="of example 5, at"):
        list(batches)
