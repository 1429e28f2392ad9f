"""Where what an optimizer keeps of a parameter lies: with it, or with zero=1 over `data` too."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P
from sharding.zoo import shapes

from redco_plan import plan_sharding


def mlp(params, x):
    return jax.nn.relu(x @ params["up"] + params["up_b"]) @ params["down"] + params["down_b"]


def moments_of(mesh, up=(24, 40), **options):
    """{name: spec of what the optimizer keeps} of a small network, and the same of its parameters."""
    width, wide = up
    params = shapes(up=up, up_b=(wide,), down=(wide, width), down_b=(width,))
    x = jax.ShapeDtypeStruct((16, width), jnp.float32)
    plan = plan_sharding(mlp, params, x, mesh, **options)
    paths = [parameter.path for parameter in plan.parameters]
    return dict(zip(paths, plan.moments, strict=True)), dict(
        zip(paths, plan.partitions, strict=True)
    )


def test_without_zero_the_moments_lie_as_the_parameters():
    moments, parameters = moments_of({"data": 2, "model": 2})
    assert moments == parameters
    assert parameters["up"] == P("fsdp", "model")


def test_with_zero_data_splits_the_dim_that_more_powers_of_two_divide():
    moments, parameters = moments_of({"data": 2, "model": 2}, zero=1)
    # 24 is 3 x 8; 40 over `model` is 20, 5 x 4.
    assert moments["up"] == P(("fsdp", "data"), "model")
    assert moments["down"] == P("model", ("fsdp", "data"))
    assert moments["up_b"] == P(("model", "data"))
    assert moments["down_b"] == P("data")
    assert parameters["up"] == P("fsdp", "model") and parameters["down_b"] == P(None)


def test_of_dims_that_as_many_powers_of_two_divide_data_splits_the_longer():
    moments, _ = moments_of({"data": 2, "model": 2}, up=(12, 40), zero=1)
    assert moments["up"] == P("fsdp", ("model", "data"))  # 12 = 3 x 4; 40 / 2 = 5 x 4


def test_an_axis_data_of_one_is_planned_as_one_of_two():
    assert moments_of({"data": 1}, zero=1) == moments_of({"data": 2}, zero=1)


@pytest.mark.parametrize("data", [3, 4])
def test_a_dim_that_data_does_not_divide_stays_as_the_parameter(data):
    moments, parameters = moments_of({"data": data, "model": 2}, up=(10, 14), zero=1)
    assert moments == parameters


def channels(p, x):
    """Numbers for each channel of a width, as of Mamba's states."""
    return jnp.einsum("bd,dn->bdn", x @ p["w"], p["a"]).sum(-1) @ p["o"]


def diagonal(p, x):
    """A matrix for each head, as of Griffin's gates."""
    h = jnp.einsum("bhd,hdk->bhk", (x @ p["w"]).reshape(-1, 4, 4), p["a"])
    return h.reshape(-1, 16) @ p["o"]


@pytest.mark.parametrize("mesh", [{"data": 2, "fsdp": 2, "model": 2}])
@pytest.mark.parametrize(
    ("function", "shape", "spec", "moments"),
    [
        (channels, (16, 4), P("model", "fsdp"), P("model", ("fsdp", "data"))),
        (channels, (16, 3), P("model", None), P("model", None)),
        (diagonal, (4, 4, 4), P("model", "fsdp", None), P("model", "fsdp", "data")),
    ],
)
def test_a_batch_dim_of_a_product_that_model_splits_is_split_over_no_rows(
    mesh, function, shape, spec, moments
):
    """XLA would give each device the gradient of another one's part."""
    params = shapes(w=(24, 16), a=shape, o=(16, 24))
    x = jax.ShapeDtypeStruct((16, 24), jnp.float32)
    plan = plan_sharding(function, params, x, mesh, zero=1)
    place = [parameter.path for parameter in plan.parameters].index("a")
    assert (plan.partitions[place], plan.moments[place]) == (spec, moments)
