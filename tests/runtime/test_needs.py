"""What experts need of a device's memory: their rows and kernels, by the axes that split them."""

import math

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

from redco_runtime.step import expert_memory
from redco_runtime.layout.activations import lay_out, layouts
from redco_runtime.nn.experts.experts import experts
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.step.memory_estimate import measure
from redco_runtime.nn.layers import saved
from redco_runtime.base.state import ModelState

L, B, S, D, F, E, X = 3, 8, 8, 4, 16, 4, 2
SHAPES = {"router": (L, D, E), "gate": (L, E, D, F), "up": (L, E, D, F), "down": (L, E, F, D)}
KERNEL = E * D * F
MODEL = ModelState({k: jax.ShapeDtypeStruct(s, jnp.float32) for k, s in SHAPES.items()}, {})
BATCH = {"x": jax.ShapeDtypeStruct((B, S, D), jnp.bfloat16)}
KEY = jax.eval_shape(jax.random.key, 0)
ROWS = ("data", "fsdp", "expert")
TABLE = {
    "x_BSD": P(ROWS, None, None),
    "h_BSD": P(ROWS, None, None),
    "u_BSEF": P(("data", "fsdp"), None, "expert", "model"),
    "a_BSEF": P(("data", "fsdp"), None, "expert", "model"),
}
BLOCK = 16  # rows of so small groups


def loss(model, batch, key):
    """Of L layers: x + experts(h), h = 2 x."""

    def layer(x_BSD, p):
        h_BSD = lay_out(2 * x_BSD, "h_BSD")
        shares_BSE = jax.nn.softmax(h_BSD @ p["router"].astype(x_BSD.dtype))
        chosen = jax.lax.top_k(shares_BSE, X)[1]
        kernels = (p[name].astype(x_BSD.dtype) for name in ("gate", "up", "down"))
        return lay_out(x_BSD + experts(h_BSD, shares_BSE, chosen, *kernels), "x_BSD"), None

    body = jax.checkpoint(layer, policy=saved("fit"), prevent_cse=False)
    return jnp.sum(jax.lax.scan(body, batch["x"], model.params)[0]), {}


@pytest.mark.parametrize(
    "sizes", [{"fsdp": 4}, {"fsdp": 2, "expert": 2}, {"fsdp": 2, "model": 2}], ids=str
)
def test_rows_of_experts_are_those_of_all_that_share_them(sizes):
    axes = dict.fromkeys((*ROWS, "model"), 1) | sizes
    groups, model = axes["fsdp"], axes["model"]
    with jax.set_mesh(make_mesh(axes)), layouts(TABLE):
        needs = measure(loss, MODEL, BATCH, KEY, groups * axes["expert"], expert_memory)
    apart, every = axes["expert"], B * S * X // groups
    room = (
        math.ceil(1.25 * every / apart) if apart > 1 else every
    )  # for what is more there are passes
    rows = (room + E // apart * (BLOCK - 1)) // BLOCK * BLOCK
    u = rows * F // model * 2  # bytes, in bfloat16
    (saving,) = needs.savings
    assert saving.name == "u_BSEF" and saving.size == L * 2 * u
    tokens = B * S * D * 2 // (groups * axes["expert"])
    kernels = 3 * 2 * KERNEL * 2 // (axes["expert"] * model)
    layer = 2 * (3 * u + tokens) + 2 * 2 * rows * D * 2 + kernels
    assert layer <= needs.size <= layer + 1000  # beside them the router, and x outside of layers


def test_kernels_that_no_layout_has_are_left_out():
    """Those that are stored in few bits: what they take is the least of it."""

    def layer(x_RD, w_EDD):
        return jax.lax.ragged_dot(x_RD, w_EDD, jnp.full(E, B // E)), None

    shapes = ((B, D), (L, E, D, D))
    loops = jax.make_jaxpr(lambda x, w: jax.lax.scan(layer, x, w))(*map(jnp.zeros, shapes))
    assert expert_memory.working_size(loops.eqns[-1]) == (0, 0)
    body = loops.eqns[-1].params["jaxpr"].jaxpr
    assert expert_memory.rooms(body, {body.invars[0]: 1}).keys() == {(B,)}  # of no axis that splits
