"""What each operation makes of an array whose rows are merged, or whose columns are parts."""

import functools
import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from redco_plan.apart.rewritten import Rewritten
from redco_plan.apart.run import follow, run_apart
from redco_plan.apart.stored import Fused, take_apart
from redco_runtime.base.messages import UserError
from redco_runtime.layout.specs import parameter_specs

# What is made of rows of 12 = 4 x 3, each (2, 5) -> the dims in which it then is.
OF_ROWS = {
    "transpose": (lambda y: y.transpose(2, 0, 1), "5,4,3,2"),
    "broadcast": (lambda y: jnp.broadcast_to(y[:, None], (12, 7, 2, 5)), "4,3,7,2,5"),
    "broadcast a dim of one": (lambda y: jnp.broadcast_to(y[:, :1], (12, 2, 5)), "4,3,2,5"),
    "squeeze": (lambda y: y[:, 1], "4,3,5"),
    "reshape": (lambda y: y.reshape(12, 10), "4,3,10"),
    "reshape beside a dim of one": (lambda y: y.reshape(12, 1, 10), "4,3,1,10"),
    "reshape back": (lambda y: y.reshape(4, 3, 10), "4,3,10"),
    "reshape behind another": (lambda y: y.transpose(1, 2, 0).reshape(10, 12), "2,5,4,3"),
    "max": (lambda y: y.max(1), "4,3,5"),
    "sum of rows": (lambda y: y.sum(0), "2,5"),
    "argmax": (lambda y: 1.0 * jnp.argmax(y, 1), "4,3,5"),
    "argmax of rows": (lambda y: 1.0 * jnp.argmax(y, 0), "2,5"),
    "cumsum": (lambda y: jnp.cumsum(y, 2), "4,3,2,5"),
    "cumsum of rows": (lambda y: jnp.cumsum(y, 0), "12,2,5"),
    "slice": (lambda y: y[:, :, 1::2], "4,3,2,2"),
    "slice of rows": (lambda y: y[2:], "10,2,5"),
    "split": (lambda y: jnp.split(y, [2], 2)[1], "4,3,2,3"),
    "split of rows": (lambda y: jnp.split(y, 3)[1], "4,2,5"),
    "concatenate": (lambda y: jnp.concatenate([y, y[:, :1]], 1), "4,3,3,5"),
    "concatenate rows": (lambda y: jnp.concatenate([y, y[:2]]), "14,2,5"),
    "times a kernel": (lambda y: y @ jnp.arange(30.0).reshape(5, 6), "4,3,2,6"),
    "times other rows": (lambda y: jnp.einsum("rab,crb->rac", y, y.transpose(1, 0, 2)), "4,3,2,2"),
    "summed over rows": (lambda y: jnp.einsum("rab,rac->bc", y, y), "5,5"),
    "of other factors": (lambda y: y + jnp.ones((2, 6, 2, 5)).reshape(12, 2, 5), "12,2,5"),
    "of one element": (lambda y: y * jnp.ones((1, 2, 5)), "4,3,2,5"),
}


@pytest.mark.parametrize("name", OF_ROWS)
def test_rows_that_are_merged_are_apart_where_they_can_be(name):
    make, shape = OF_ROWS[name]

    def forward(_, x):
        return jnp.sin(make(x.reshape(12, 2, 5)))

    x = jnp.arange(120.0).reshape(4, 3, 2, 5) % 7 / 7
    run = functools.partial(run_apart, forward, form=Rewritten())
    assert f"f32[{shape}] = sin" in str(jax.make_jaxpr(run)({}, x))
    np.testing.assert_allclose(run({}, x), forward({}, x), 1e-5, 1e-6)


PARTS = {"in": (1, (3, 2)), "k": (1, (2, 3))}
SPECS = dict.fromkeys(("in/0", "in/1", "k/0", "k/1"), P("fsdp", "model"))
WHOLE = {"in": jnp.arange(10.0).reshape(2, 5) % 7, "k": 9 - jnp.arange(10.0).reshape(2, 5)}
# What is made of columns of 5 = 3 + 2, and of others of 5 = 2 + 3 -> the shapes in which it then is.
OF_COLUMNS = {
    "each by itself": (lambda y, z: y * y, ["2,3", "2,2"]),
    "where": (lambda y, z: jnp.where(y > 3, y, 0.0), ["2,3", "2,2"]),
    "jit": (lambda y, z: jax.nn.relu(y), ["2,3", "2,2"]),
    "a derivative of its own": (lambda y, z: jax.nn.silu(y), ["2,3", "2,2"]),
    "parts of other sizes": (lambda y, z: y + z, ["2,5"]),
    "pad": (lambda y, z: jnp.pad(y, ((0, 0), (1, 0))), ["2,6"]),
    "pad rows": (lambda y, z: jnp.pad(y, ((1, 0), (0, 0))), ["3,3", "3,2"]),
    "cumsum": (lambda y, z: jnp.cumsum(y, 1), ["2,5"]),
    "cumsum of rows": (lambda y, z: jnp.cumsum(y, 0), ["2,3", "2,2"]),
    "slice": (lambda y, z: y[:, 1:4], ["2,2", "2,1"]),
    "slice of one part": (lambda y, z: y[:, 1:2], ["2,1"]),
    "split": (lambda y, z: jnp.split(y, [1], 1)[1], ["2,2", "2,2"]),
    "split of rows": (lambda y, z: jnp.split(y, [1], 0)[0], ["1,3", "1,2"]),
    "reshape": (lambda y, z: y.reshape(2, 1, 5), ["2,1,3", "2,1,2"]),
    "reshape that merges them": (lambda y, z: y.reshape(10), ["2,5"]),
    "transpose": (lambda y, z: y.T, ["3,2", "2,2"]),
    "sum": (lambda y, z: y.sum(1), ["2"]),
    "sum of rows": (lambda y, z: y.sum(0), ["3", "2"]),
    "max": (lambda y, z: y.max(1), ["2"]),
    "sort": (lambda y, z: jnp.sort(y, 1), ["2,5"]),
    "rev": (lambda y, z: y[:, ::-1], ["2,5"]),
    "times a kernel": (lambda y, z: y @ jnp.arange(20.0).reshape(5, 4), ["2,4"]),
    "concatenate": (lambda y, z: jnp.concatenate([y, z], 1), ["2,10"]),
    "scan over rows": (lambda y, z: jax.lax.scan(lambda c, r: (c + r, c * r), y[0], y)[1], ["2,5"]),
    "cond": (lambda y, z: jax.lax.cond(y[0, 0] > 1, jnp.abs, jnp.negative, y), ["2,5"]),
}


@pytest.mark.parametrize("name", OF_COLUMNS)
def test_columns_that_are_parts_are_apart_where_they_can_be(name):
    make, shapes = OF_COLUMNS[name]

    def forward(params, x):
        return jnp.sin(make(x @ params["in"], x @ params["k"]))

    x = jnp.arange(1.0, 5.0).reshape(2, 2)
    run = functools.partial(run_apart, forward, form=Fused(PARTS, SPECS))
    stored = take_apart(WHOLE, PARTS)
    program = str(jax.make_jaxpr(run)(stored, x))
    assert re.findall(r"f32\[([\d,]+)\] = sin", program) == shapes
    np.testing.assert_allclose(run(stored, x), forward(WHOLE, x), 1e-5, 1e-5)


def test_what_its_parts_do_not_make_has_no_spec():
    """Of a model whose config has other sizes than sharding.py is for."""
    stored = take_apart(WHOLE, {"in": (1, (3, 1))})
    with pytest.raises(UserError, match=r"\n  in: a parameter without a spec\n"):
        parameter_specs(stored, {"in/0": P(), "in/1": P()})


class Model(NamedTuple):
    params: Any
    others: Any
    frozen: Any


def test_a_function_follows_how_its_model_is_stored():
    """Apart and padded: what it is called with is the model's own."""
    taken = take_apart(WHOLE, PARTS)
    padded = taken | {"k": (jnp.pad(taken["k"][0], ((0, 2), (0, 0))), taken["k"][1])}

    def function(model, batch, key):
        return batch @ model.params["in"] + model.others, model.params["k"] * key + model.frozen

    followed = follow(jax.eval_shape(lambda: taken), {}, Fused(PARTS, SPECS))(function)
    found = followed(Model(padded, jnp.float32(3), jnp.float32(1)), jnp.eye(2), jnp.float32(2))
    np.testing.assert_array_equal(found[0], WHOLE["in"] + 3)
    np.testing.assert_array_equal(found[1], WHOLE["k"] * 2 + 1)
