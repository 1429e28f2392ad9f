import jax
import jax.numpy as jnp
import optax
import pytest
from jax.sharding import PartitionSpec as P

from redco_runtime.base.messages import UserError
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.layout.specs import (
    constrain,
    cut,
    pad,
    parameter_specs,
    place_abstract,
    state_specs,
)
from redco_runtime.base.state import ModelState, new_state

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
        ({"down/kernel": P()}, "down/kernel: a spec without a parameter"),
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


def test_a_smaller_model_has_specs_to_spare():
    assert parameter_specs(PARAMS, {**SPECS, "down/kernel": P()}) == parameter_specs(PARAMS, SPECS)


def test_a_dim_that_does_not_divide_is_named():
    odd = {"up": {"kernel": jax.ShapeDtypeStruct((8, 6), "float32")}}
    with pytest.raises(UserError, match=r"up/kernel: dim 1 of \(8, 6\) does not divide by 4"):
        parameter_specs(odd, {"up/kernel": P(None, ("fsdp", "model"))})


@pytest.mark.parametrize("table", [{}, SPECS | {"up/kernel": P("model")}], ids=["new", "other"])
def test_where_a_table_does_not_fit_the_update_is_named(table):
    with pytest.raises(UserError, match="`redco update` works the table out anew"):
        parameter_specs(PARAMS, table)


def placed_state(moments):
    """An abstract state on the mesh, with a variable and these moments."""
    model = ModelState(PARAMS, {"mean": jax.ShapeDtypeStruct((8,), "float32")})
    state = jax.eval_shape(lambda model: new_state(model, OPTIMIZER), model)
    return place_abstract(state, state_specs(state, SPECS, moments))


OPTIMIZER = optax.adamw(optax.constant_schedule(1e-3))


def test_the_optimizer_state_lies_where_its_parameter_lies():
    state = placed_state({})
    split = {
        jax.tree_util.keystr(path)
        for path, leaf in jax.tree.leaves_with_path(state)
        if leaf.sharding.spec == P(None, "model")
    }
    whole = {leaf.shape for leaf in jax.tree.leaves(state) if leaf.sharding.spec == P()}
    assert len(split) == 3 and whole == {(), (8,)}
    placed = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype, device=leaf.sharding), state
    )
    assert placed.params["up"]["kernel"].addressable_shards[0].data.shape == (8, 2)


def test_moments_may_lie_elsewhere():
    state = placed_state({"up/kernel": P("fsdp", "model")})
    assert state.params["up"]["kernel"].sharding.spec == P(None, "model")
    kept = [leaf for leaf in jax.tree.leaves(state.opt_state) if leaf.ndim]
    assert [leaf.sharding.spec for leaf in kept] == [P("fsdp", "model")] * 2


def test_padding_adds_zeros_and_is_cut_off_again():
    model = ModelState({"a": {"b": jnp.ones((7, 4))}}, {}, {"a": {"c": jnp.ones((3, 2))}})
    padded = pad(model, {"a/b": (4, 3), "a/c": (2, 2)})
    assert padded.params["a"]["b"].shape == (8, 6) and padded.params["a"]["b"].sum() == 28
    assert padded.frozen["a"]["c"].shape == (4, 2) and padded.frozen["a"]["c"].sum() == 6
    assert jax.tree.all(jax.tree.map(jnp.array_equal, cut(padded, model), model))


def test_gradients_lie_where_the_moments_do():
    grads = {"up": {"kernel": jnp.ones((8, 4))}}
    assert constrain(grads, {}) is grads
    split = jax.jit(lambda grads: constrain(grads, {"up/kernel": P("fsdp", "model")}))(grads)
    assert split["up"]["kernel"].addressable_shards[0].data.shape == (4, 2)


def test_padding_for_another_number_of_dims_is_left_to_the_table_of_specs():
    model = ModelState({"a": jnp.ones((7, 4))}, {})
    assert pad(model, {"a": (4,)}).params["a"].shape == (7, 4)
