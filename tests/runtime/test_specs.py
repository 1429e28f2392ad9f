import jax
import jax.numpy as jnp
import optax
import pytest
from jax.sharding import PartitionSpec as P

from redco_runtime.errors import UserError
from redco_runtime.mesh import make_mesh
from redco_runtime.specs import abstract_state, parameter_specs, state_specs

PARAMS = {"up": {"kernel": jax.ShapeDtypeStruct((8, 4), "float32")}}
SPECS = {"up/kernel": P(None, "model")}


@pytest.fixture(autouse=True)
def mesh():
    with jax.set_mesh(make_mesh({"data": 1, "fsdp": 2, "model": 2})):
        yield


def test_specs_take_the_structure_of_the_parameters():
    assert parameter_specs(PARAMS, SPECS) == {"up": {"kernel": P(None, "model")}}


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ({}, "up/kernel: a parameter without a spec"),
        ({**SPECS, "down/kernel": P()}, "down/kernel: a spec without a parameter"),
        ({"up/kernel": P("model")}, "up/kernel: .* has 1 entries for the 2 dims of"),
        (
            {"up/kernel": P(None, "modle")},
            "up/kernel: .*'modle'.* has an axis that the mesh has not",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused_by_name(table, fault):
    with pytest.raises(UserError, match=fault):
        parameter_specs(PARAMS, table)


def test_a_dim_that_does_not_divide_is_named():
    odd = {"up": {"kernel": jax.ShapeDtypeStruct((8, 6), "float32")}}
    with pytest.raises(UserError, match=r"up/kernel: dim 1 of \(8, 6\) does not divide by 4"):
        parameter_specs(odd, {"up/kernel": P(None, ("fsdp", "model"))})


def test_the_optimizer_state_lies_where_its_parameter_lies():
    optimizer = optax.adamw(optax.constant_schedule(1e-3))
    specs = state_specs(optimizer, PARAMS, parameter_specs(PARAMS, SPECS))
    state = abstract_state(optimizer, PARAMS, specs)
    split = {
        jax.tree_util.keystr(path)
        for path, leaf in jax.tree.leaves_with_path(state)
        if leaf.sharding.spec == P(None, "model")
    }
    whole = {leaf.shape for leaf in jax.tree.leaves(state) if leaf.sharding.spec == P()}
    assert len(split) == 3 and whole == {()}
    placed = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype, device=leaf.sharding), state
    )
    assert placed.params["up"]["kernel"].addressable_shards[0].data.shape == (8, 2)
