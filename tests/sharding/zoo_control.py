"""Programs within programs: own gradients, branches, loops, device programs, kernels."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.sharding import PartitionSpec as P
from sharding.zoo import D, F, X, shapes

WEIGHTS = shapes(i=(D, F), o=(F, D))


@jax.custom_jvp
def squared(x):
    return x * x


@squared.defjvp
def _(primals, tangents):
    return squared(*primals), 2 * primals[0] * tangents[0]


@jax.custom_vjp
def project(x, w):
    return x @ w


project.defvjp(lambda x, w: (x @ w, (x, w)), lambda kept, g: (g @ kept[1].T, kept[0].T @ g))


def own_derivatives(p, batch):
    return project(squared(project(batch["x"], p["i"])), p["o"])


def branches(p, batch):
    x = batch["x"]

    def layer(x):
        return x + jax.nn.relu(x @ p["i"]) @ p["o"]

    x = jax.lax.cond(x.sum() > 0, layer, lambda x: x, x)
    return jax.lax.switch(jnp.argmax(x[0]) % 3, [layer, jnp.tanh, lambda x: x * 2], x)


def loops(p, batch):
    """A while loop, forward only (it has no gradient), then a loop of known length."""

    def layer(p, x):
        return jnp.tanh(x @ p["i"]) @ p["o"]

    fixed, start = jax.lax.stop_gradient((p, batch["x"]))
    x = jax.lax.while_loop(lambda x: (x**2).mean() > 0.1, lambda x: layer(fixed, x) / 4, start)
    return jax.lax.fori_loop(0, 3, lambda _, x: x + layer(p, x), x)


def on_devices(p, batch):
    """An MLP in which each device of the user's own mesh has its rows of the batch."""
    mesh = jax.make_mesh((4,), ("mine",), axis_types=(jax.sharding.AxisType.Auto,))

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(P("mine"), P()), out_specs=P("mine"))
    def centred(x, w):
        return jnp.tanh((x - jax.lax.pmean(x, "mine")) @ w)

    return centred(batch["x"], p["i"]) @ p["o"]


def inner_gradient(p, batch):
    """One step of gradient descent inside the model (MAML)."""

    def loss(p):
        h = jax.checkpoint(lambda w: jax.nn.gelu(batch["x"] @ w))(p["i"])
        return jnp.sum(jnp.cumsum(jax.nn.softmax(h @ p["o"]), -1) ** 2)

    better = jax.tree.map(lambda w, g: w - 0.1 * g, p, jax.grad(loss)(p))
    return jax.nn.gelu(batch["x"] @ better["i"]) @ better["o"]


def opaque(p, batch):
    """A hand-written kernel in the middle."""

    def kernel(x_ref, y_ref):
        y_ref[...] = x_ref[...] * 2.0

    h = batch["x"] @ p["i"]
    h = pl.pallas_call(kernel, jax.ShapeDtypeStruct(h.shape, h.dtype), interpret=True)(h)
    return h @ p["o"]


CONTROL = {
    f.__name__: (f, WEIGHTS, X)
    for f in (own_derivatives, branches, loops, on_devices, inner_gradient)
}
OPAQUE = (opaque, WEIGHTS, X)
