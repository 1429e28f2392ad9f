"""Which arrays of a batch pick rows of a parameter, as the traced step of a loss and its gradient has them."""

import jax
import jax.numpy as jnp
import optax
import pytest
from jax.sharding import PartitionSpec as P

from redco_runtime.base.state import ModelState, new_state
from redco_runtime.layout.activations import layouts
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.nn.embedding import look_up
from redco_runtime.step.gradients import mean_and_gradients
from redco_runtime.step.tables import tables_of

B, S, D, V, PADDED = 8, 4, 16, 30, 32
MESHES = {"one": {}, "two": {"data": 2, "model": 2}}


def tables(loss, axes=MESHES["one"], micro_batches=1):
    """What `tables_of` says of a step of `loss`(table, batch), whose table is padded in memory."""
    mesh = make_mesh({"data": 1, "fsdp": 1, "model": 1} | axes, jax.devices()[: 2 ** len(axes)])
    model = ModelState({"embed": {"embedding": jnp.ones((PADDED, D))}}, {})
    state = new_state(model, optax.sgd(0.1))
    batch = {"ids": jnp.zeros((B, S), jnp.int32), "label": jnp.zeros((B,), jnp.int32)}

    def value(model, batch, key):
        return loss(model.params["embed"]["embedding"][:V], batch), {}

    def step(state, batch):
        return mean_and_gradients(value, state.model, batch, jax.random.key(0), micro_batches)

    with jax.set_mesh(mesh), layouts({"rows_BSD": P("data", None, "fsdp")}):
        program = jax.jit(step).trace(state, batch).jaxpr
    return tables_of(
        program, state, batch, {"embed/embedding": jax.ShapeDtypeStruct((V, D), float)}
    )


def looked_up(table_VD, batch):
    return look_up(table_VD, batch["ids"], "float32", "rows_BSD").sum()


@pytest.mark.parametrize("axes", MESHES)
@pytest.mark.parametrize("micro_batches", (1, 2))
def test_ids_that_are_looked_up_are_within_the_rows_without_padding(axes, micro_batches):
    assert tables(looked_up, MESHES[axes], micro_batches) == {"ids": V}


@pytest.mark.parametrize(
    "loss",
    (
        lambda table, batch: jnp.take(table, batch["ids"], axis=0).sum(),
        lambda table, batch: table[jnp.roll(batch["ids"], 1, axis=1)].sum(),
        lambda table, batch: jax.checkpoint(lambda ids: table[ids[:, :-1]])(batch["ids"]).sum(),
        lambda table, batch: jax.vmap(lambda ids: table[ids])(batch["ids"].T).sum(),
    ),
)
def test_ids_are_followed_to_where_they_pick_rows(loss):
    assert tables(loss) == {"ids": V}


@pytest.mark.parametrize(
    "loss",
    (
        lambda table, batch: table[jnp.where(batch["ids"] < V, batch["ids"], 0)].sum(),
        lambda table, batch: jnp.take(table, batch["ids"], axis=0, mode="clip").sum(),
        lambda table, batch: table[batch["ids"] // 2].sum(),
        lambda table, batch: jnp.concatenate([table, table])[batch["ids"]].sum(),
        lambda table, batch: (jax.nn.one_hot(batch["label"], V) @ table).sum(),
        lambda table, batch: jnp.ones((9, D))[batch["ids"]].sum() + table.sum(),
    ),
)
def test_numbers_that_a_model_changes_or_looks_up_elsewhere_are_none(loss):
    assert tables(loss) == {}
