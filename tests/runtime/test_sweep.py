"""Which adapters a run trains at once, and which of them is the best."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from redco_runtime.base.messages import UserError
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.loop.sweep import best_of
from redco_runtime.nn.adapters.layers import LoraSettings
from redco_runtime.step import frozen_copies, stack
from redco_runtime.step.frozen_copies import copied_size
from redco_runtime.base.state import ModelState
from redco_runtime.step.stack import Own, scale_products, summary
from redco_runtime.step.sweep import Sweep, rows_of


def config(algorithm="adamw", rank=8, **sweep):
    return SimpleNamespace(
        sweep=Sweep(**sweep),
        lora=LoraSettings(rank, 16.0),
        optimizer=SimpleNamespace(learning_rate=1e-3, algorithm=algorithm),
        train=SimpleNamespace(seed=5),
    )


def test_adapters_are_the_combinations_and_what_is_not_named_is_the_run_s():
    (row,) = rows_of(config())
    assert (row.number, row.learning_rate, row.seed, row.rank, row.scale) == (0, 1e-3, 5, 8, 1)
    rows = rows_of(config(learning_rates=(1.0, 2.0), seeds=(3,), ranks=(4, 8)))
    assert [(row.learning_rate, row.rank) for row in rows] == [(1, 4), (1, 8), (2, 4), (2, 8)]
    assert [row.number for row in rows] == [0, 1, 2, 3] and {row.seed for row in rows} == {3}
    assert [row.scale for row in rows] == [2, 1, 2, 1]  # alpha / rank, of that of the largest


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"ranks": (4, 16)}, "--lora-rank: 8, and the largest of --ranks is 16"),
        ({"ranks": (4, 8), "algorithm": "adafactor"}, "--algorithm: adafactor sees the zeros"),
        ({"seeds": (1, 2, 3), "adapters_at_once": 2}, "does not divide the 3 adapters"),
        ({"adapters_at_once": 0}, "--adapters-at-once: 0: give a number above 0"),
        ({"learning_rates": (1e-3, float("nan"))}, "--learning-rates: nan: give numbers of 0"),
        ({"seeds": (-1,)}, "--seeds: -1: give numbers of 0 or more"),
        ({"ranks": (0, 8)}, "--ranks: 0: give numbers above 0"),
    ],
)
def test_a_sweep_that_cannot_be_is_named(changes, says):
    with pytest.raises(UserError, match=says):
        rows_of(config(**changes))


def test_an_adapter_of_a_lower_rank_is_filled_up_with_zeros():
    own = {"a": jnp.ones((3, 2)), "b": jnp.ones((2, 3))}
    like = {
        "a": jax.ShapeDtypeStruct((3, 4), "float32"),
        "b": jax.ShapeDtypeStruct((4, 3), "float32"),
    }
    whole = stack._fill_up(own, like)
    assert whole["a"].tolist() == [[1, 1, 0, 0]] * 3
    assert whole["b"].tolist() == [[1] * 3] * 2 + [[0] * 3] * 2


def test_the_best_has_the_lowest_loss_or_the_highest_score():
    figures = [{"loss": 2.0, "right": 0.5}, {"loss": 1.0, "right": None}]
    figures += [{"loss": float("nan"), "right": 0.75}]
    assert best_of(figures, "loss") == 1 and best_of(figures, "right") == 2
    with pytest.raises(UserError, match="--best: no score is called wrong: choose some of loss"):
        best_of(figures, "wrong")


def test_an_adapter_that_is_lost_does_not_end_the_others():
    values = {"loss": jnp.array([jnp.nan, 3.0, 2.0]), "grad_norm": jnp.array([0.0, 1.0, 4.0])}
    found = summary({**values, "sound": jnp.array([False, True, True])})
    assert found["sound"] and found["unsound"] == 1
    assert (found["loss"], found["worst_loss"], found["adapter"]) == (2, 3, 2)
    assert found["grad_norm"] == 4 and found["adapter_1/loss"] == 3
    assert not summary({**values, "sound": jnp.array([False] * 3)})["sound"]


def test_what_an_adapter_adds_is_scaled_once():
    params = {"q": {"lora_a": jnp.ones(2), "lora_b": jnp.ones(2)}, "norm": jnp.ones(2)}
    scaled = scale_products(ModelState(params, {}), jnp.float32(3)).params
    assert {name: float(x[0]) for name, x in (scaled["q"] | {"norm": scaled["norm"]}).items()} == {
        "lora_a": 1,
        "lora_b": 3,
        "norm": 1,
    }


def test_learning_rates_are_numbers_of_python():
    """Their schedules round as those of a run alone."""
    own = Own(jnp.int32(1), jax.random.key(0), None, (1e-3, 2e-3))
    assert len(jax.tree.leaves(own)) == 2 and jax.jit(lambda own: own)(own).rates == (1e-3, 2e-3)


def test_an_adapter_says_what_it_is_trained_with():
    (row,) = rows_of(config())
    assert str(row) == "learning rate 0.001, seed 5, rank 8"


def test_what_gpus_copy_of_frozen_kernels_is_longer_than_codes(monkeypatch):
    place = NamedSharding(make_mesh({"data": 1}, jax.devices()[:1]), P())
    frozen = {
        str(dtype): jax.ShapeDtypeStruct((5, 3), dtype, sharding=place)
        for dtype in ("bfloat16", "uint8", "int8")
    }
    assert copied_size(frozen) == 0  # of CPUs
    monkeypatch.setattr(frozen_copies, "platform", lambda: "gpu")
    assert copied_size(frozen) == 15 * 2 + 4 * 15 + 2 * 15
