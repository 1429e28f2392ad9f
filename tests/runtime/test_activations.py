import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

from redco_runtime.layout.activations import lay_out, layouts
from redco_runtime.base.messages import UserError
from redco_runtime.layout.mesh import make_mesh

TABLE = {"x_BSD": P(("data", "fsdp"), "model", None), "y_B": P(P.UNCONSTRAINED)}


@pytest.fixture(autouse=True)
def mesh():
    with jax.set_mesh(make_mesh({"data": 1, "fsdp": 2, "model": 2})):
        yield


def laid_out(shape, name):
    """The shape of each device's part of what `lay_out` makes in a compiled program."""
    with layouts(TABLE):
        made = jax.jit(lambda x: lay_out(x, name))(jnp.ones(shape))
    return made.addressable_shards[0].data.shape


def test_an_activation_lies_as_the_table_says():
    assert laid_out((4, 6, 3), "x_BSD") == (2, 3, 3)


def test_a_dim_that_does_not_divide_stays_whole():
    assert laid_out((4, 1, 3), "x_BSD") == (2, 1, 3)
    assert laid_out((3, 4, 3), "x_BSD") == (3, 2, 3)


def test_what_the_table_leaves_open_is_left_open():
    assert laid_out((3,), "y_B") == (3,)


def test_without_a_table_nothing_is_laid_out():
    x = jnp.ones(3)
    assert jax.make_jaxpr(lambda x: lay_out(x, "z"))(x).eqns[0].primitive.name == "name"
    assert len(jax.make_jaxpr(lambda x: lay_out(x, "z"))(x).eqns) == 1


def test_a_name_that_the_table_has_not_is_refused():
    with pytest.raises(UserError, match="the activation z has no spec in ACTIVATIONS"):
        laid_out((3,), "z")
    assert laid_out((4, 6, 3), "x_BSD") == (2, 3, 3)


def test_a_spec_of_another_rank_is_refused():
    with pytest.raises(ValueError):
        laid_out((4, 4), "x_BSD")
