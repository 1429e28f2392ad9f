"""Rules that no model of the zoo needs: each sees through the operation, and splits around it."""

import functools

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P
from sharding.zoo import B, D, F, X, shapes

from redco_plan import plan_sharding

PARAMS = shapes(i=(D, F), o=(F, D))


def on_devices(body, into, out):
    """`body` on each of four devices, which have the rows, or the columns, of an array."""

    def call(h):
        mesh = jax.make_mesh((4,), ("mine",), axis_types=(jax.sharding.AxisType.Auto,))
        return jax.shard_map(body, mesh=mesh, in_specs=into, out_specs=out, check_vma=False)(h)

    return call


@jax.custom_batching.custom_vmap
def doubled(h):
    return 2 * h


doubled.def_vmap(lambda size, batched, h: (doubled(h), batched[0]))

# Operations on h (B, F) that keep its shape, and along B or not at all.
LOCAL = {
    "sort": lambda h: lax.sort((h, -h), dimension=0, num_keys=1)[1],
    "rev": lambda h: h[::-1],
    "cummax": lambda h: lax.cummax(h, 0),
    "fft": lambda h: jnp.fft.fft(h.T).T.real,
    "dropout": lambda h: h * jax.random.bernoulli(jax.random.key(0), 0.9, h.shape),
    "gamma": lambda h: h + jax.random.gamma(jax.random.key(0), 2.0, h.shape),
    "print": lambda h: jax.debug.print("{}", h.sum()) or h,
    "bits": lambda h: lax.bitcast_convert_type(lax.bitcast_convert_type(h, jnp.int8), h.dtype),
    "update": lambda h: lax.dynamic_update_slice(h, h[:2] * 2, (1, 0)),
    "scatter": lambda h: h.at[jnp.argmax(h[:, 0])].set(0.0),
    "slice": lambda h: lax.dynamic_slice(h, (jnp.argmax(h[:, 0]), 0), (2, F)),
    "stack": lambda h: jnp.stack([h, h]).sum(0) + sum(jnp.unstack(jnp.stack([h, h]))),
    "tile": lambda h: jnp.tile(h, (2, 1))[:B],
    "every second": lambda h: h + jnp.repeat(h[:, ::2], 2, 1),
    "associative": lambda h: lax.associative_scan(jnp.multiply, h),
    "custom_vmap": doubled,
    "composite": lax.composite(lambda h: h * 2, name="mine.double"),
    "linear": lambda h: jax.linear_transpose(lambda x: 2 * x, h)(h)[0],
    "reduce": lambda h: h - lax.reduce(h, 0.0, lambda a, b: jnp.hypot(a, b), (0,)),
    "psum": on_devices(lambda h: h - lax.psum(h, "mine"), P(None, "mine"), P(None, "mine")),
    "axis_index": on_devices(lambda h: h + lax.axis_index("mine"), P("mine"), P("mine")),
    "all_gather": on_devices(
        lambda h: lax.all_gather(h, "mine", tiled=True)[:1], P("mine"), P("mine")
    ),
}
# Operations along F: h must be whole on every device, but none is unknown.
ALONG = {
    "top_k": lambda h: jnp.tile(lax.top_k(h, F // 2)[0], 2),
    "approx_top_k": lambda h: jnp.tile(lax.approx_max_k(h, F // 2)[0], 2),
    "roll": lambda h: jnp.roll(h, 1, -1),
    "pad": lambda h: jnp.pad(h, ((0, 0), (1, 0)))[:, :-1],
    "pool": lambda h: lax.reduce_window(h, 0.0, lax.add, (1, 3), (1, 1), "SAME"),
    "quantile": lambda h: h - jnp.median(h, -1, keepdims=True),
    "gathered": on_devices(
        lambda h: lax.all_gather(h, "mine", axis=1).reshape(B, F), P(None, "mine"), P()
    ),
    "scattered": on_devices(
        lambda h: lax.psum_scatter(h, "mine", scatter_dimension=1, tiled=True), P(), P(None, "mine")
    ),
    "scattered to one each": on_devices(
        lambda h: lax.psum_scatter(h.reshape(B, 4, -1), "mine", scatter_dimension=1),
        P(),
        P(None, "mine"),
    ),
    "exchanged": on_devices(
        lambda h: lax.all_to_all(h, "mine", 1, 0, tiled=True), P("mine"), P(None, "mine")
    ),
}


def around(operation, params, batch):
    return operation(batch["x"] @ params["i"]) @ params["o"]


@pytest.mark.parametrize("name", LOCAL)
def test_kernels_around_an_operation_along_the_batch_are_split(name):
    plan = plan_sharding(functools.partial(around, LOCAL[name]), PARAMS, X, {"model": 4})
    assert plan.warnings == ()
    assert plan.specs == {"i": P("fsdp", "model"), "o": P("model", "fsdp")}


@pytest.mark.parametrize("name", ALONG)
def test_an_operation_along_the_columns_is_no_unknown(name):
    plan = plan_sharding(functools.partial(around, ALONG[name]), PARAMS, X, {"model": 4})
    assert plan.warnings == ()


def test_operands_that_are_reduced_together_are_of_one_class():
    def forward(params, batch):
        pair = batch["x"] @ params["i"], batch["x"] @ params["j"]
        one, _ = lax.reduce(pair, (0.0, 0.0), lambda a, b: (a[0] + b[1], a[1] + b[0]), (0,))
        return one @ params["o"]

    params = shapes(i=(D, F), j=(D, F), o=(F, D))
    plan = plan_sharding(forward, params, X, {"model": 4})
    i, j, o = plan.classes.parameter_dims
    assert i[1] == j[1] == o[0]


@pytest.mark.parametrize(
    ("cut", "same"), [(slice(1, None, 2), True), (slice(0, -2, 2), False)], ids=["all", "some"]
)
def test_every_second_of_all_columns_lies_as_the_columns(cut, same):
    def forward(params, batch):
        return (batch["x"] @ params["i"])[:, cut] @ params["o"]

    rows = len(range(F)[cut])
    plan = plan_sharding(forward, shapes(i=(D, F), o=(rows, D)), X, {"model": 2})
    (_, columns), (rows, _) = plan.classes.parameter_dims
    assert (columns == rows) is same


@pytest.mark.parametrize(
    "join",
    [
        lambda a, b: lax.dynamic_update_slice(a, b[:2], (1, 0)),
        lambda a, b: lax.sort((a, b), dimension=0, num_keys=1)[1],
        lambda a, b: jnp.take_along_axis(a, b.astype(int), axis=0),
        jax.vmap(lambda a, b: a.at[b.astype(int)].set(0.0), 1, 1),
    ],
    ids=["written into", "sorted by", "taken by", "written by"],
)
def test_rows_that_come_together_are_of_one_class(join):
    def forward(params, batch):
        return join(batch["x"] @ params["i"], batch["x"] @ params["j"]) @ params["o"]

    plan = plan_sharding(forward, shapes(i=(D, F), j=(D, F), o=(F, D)), X, {"model": 4})
    i, j, o = plan.classes.parameter_dims
    assert i[1] == j[1] == o[0]
    assert plan.specs == {"i": P("fsdp", "model"), "j": P("fsdp", "model"), "o": P("model", "fsdp")}
