"""A small decoder that names its activations, on meshes of up to four devices."""

from math import prod

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from sharding.zoo import norm, shapes

# Sizes of which 7 divides those of activations, and of no parameter.
B, S, D, F, V, N = 4, 14, 24, 40, 88, 4
IDS = {"ids": jax.ShapeDtypeStruct((B, S), jnp.int32)}
ROWS = ("data", "fsdp")
FSDP = {"data": 1, "fsdp": 4, "model": 1}
BOTH = {"data": 1, "fsdp": 2, "model": 2}
MODEL = {"data": 1, "fsdp": 1, "model": 4}
DATA = {"data": 2, "fsdp": 2, "model": 1}
EXPERT = {"data": 1, "fsdp": 1, "expert": 2, "model": 2}
LAYER = shapes(q=(D, D), k=(D, D), v=(D, D), o=(D, D), i=(D, F), j=(F, D), n=(D,))
PARAMS = shapes(t=(V, D), u=(D, V)) | {"l": [LAYER] * 2}


def attend(w, h, name, heads=N):
    q, k, v = (name((h @ w[key]).reshape(*h.shape[:2], heads, -1), "heads") for key in "qkv")
    weights = jax.nn.softmax(jnp.einsum("bqnh,bknh->bnqk", q, k))
    return name(jnp.einsum("bnqk,bknh->bqnh", weights, v).reshape(h.shape), "joined")


def decoder(name, heads=N):
    """A decoder that gives `name` each of its activations, and what it is."""

    def forward(p, batch):
        x = name(p["t"][batch["ids"]], "residual")
        for w in p["l"]:
            x = x + attend(w, name(norm(x, w["n"]), "gathered"), name, heads) @ w["o"]
            h = name(norm(name(x, "residual"), w["n"]), "gathered")
            x = x + name(jax.nn.gelu(h @ w["i"]), "hidden") @ w["j"]
        return name(x @ p["u"], "logits")

    return forward


NAMED, PLAIN = decoder(checkpoint_name), decoder(lambda x, _: x)


def compile_step(forward, plan, params, batch, options=None):
    """The compiled loss and gradients of `forward`, and the shardings of its inputs.

    Without a plan, on one device.
    """
    step = jax.jit(jax.value_and_grad(lambda p, b: jnp.mean(forward(p, b) ** 2)))
    if plan is None:
        return step.lower(params, batch), None
    axes = (AxisType.Auto,) * len(plan.mesh)
    mesh = jax.make_mesh(
        tuple(plan.mesh.values()),
        tuple(plan.mesh),
        axes,
        devices=jax.devices()[: prod(plan.mesh.values())],
    )
    layout = jax.tree.map(lambda spec: NamedSharding(mesh, spec), plan.specs)
    split = (layout, NamedSharding(mesh, P(plan.batch_axes)))
    with jax.set_mesh(mesh):
        step = jax.jit(step, in_shardings=split, out_shardings=(None, layout))
        return step.lower(params, batch), split
