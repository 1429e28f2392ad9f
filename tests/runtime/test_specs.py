import jax
import jax.numpy as jnp
import optax
import pytest
from jax.sharding import PartitionSpec as P

from redco_runtime.errors import UserError
from redco_runtime.mesh import make_mesh
from redco_runtime.specs import abstract_state, cut, pad, parameter_specs, state_specs

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


OPTIMIZER = optax.adamw(optax.constant_schedule(1e-3))


def test_the_optimizer_state_lies_where_its_parameter_lies():
    specs = parameter_specs(PARAMS, SPECS)
    state = abstract_state(OPTIMIZER, PARAMS, state_specs(OPTIMIZER, PARAMS, specs, specs))
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


def test_moments_may_lie_elsewhere():
    specs, moments = parameter_specs(PARAMS, SPECS), {"up": {"kernel": P("fsdp", "model")}}
    state = abstract_state(OPTIMIZER, PARAMS, state_specs(OPTIMIZER, PARAMS, specs, moments))
    assert state.params["up"]["kernel"].sharding.spec == P(None, "model")
    kept = [leaf for leaf in jax.tree.leaves(state.opt_state) if leaf.ndim]
    assert [leaf.sharding.spec for leaf in kept] == [P("fsdp", "model")] * 2


def test_padding_adds_zeros_and_is_cut_off_again():
    params = {"a": {"b": jnp.ones((7, 4))}, "c": jnp.ones(3)}
    padded = pad(params, {"a/b": (4, 3)})
    assert padded["a"]["b"].shape == (8, 6) and padded["a"]["b"].sum() == 28
    assert padded["c"] is params["c"]
    assert jax.tree.all(jax.tree.map(jnp.array_equal, cut(padded, params), params))
