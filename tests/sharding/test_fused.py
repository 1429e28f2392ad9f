"""Kernels that are fused of equal parts: stored with the parts apart, and computed part by part."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from sharding.models import ZOO
from sharding.parted import UNOPTIMISED, values
from sharding.zoo import IDS, D, F, V, shapes

from redco_plan import plan_sharding, predict_collectives

MESH = {"model": 4}
APART = {
    "gpt2": {
        **dict.fromkeys([f"h/qkv/{i}" for i in range(3)], ([2, D, D], P(None, "fsdp", "model"))),
        **dict.fromkeys([f"h/qkv_b/{i}" for i in range(3)], ([2, D], P(None, "model"))),
    },
    "gpt2_unrolled": {
        **dict.fromkeys([f"h/0/qkv/{i}" for i in range(3)], ([D, D], P("fsdp", "model"))),
        **dict.fromkeys([f"h/0/qkv_b/{i}" for i in range(3)], ([D], P("model"))),
    },
    "fused": {
        **dict.fromkeys([f"qkv/{i}" for i in range(3)], ([D, D], P("fsdp", "model"))),
        **dict.fromkeys([f"gu/{i}" for i in range(2)], ([D, F], P("fsdp", "model"))),
    },
    "mamba": dict.fromkeys([f"l/0/in/{i}" for i in range(2)], ([D, F], P("fsdp", "model"))),
}


def apart(plan):
    """{path: (shape, spec)} of the parameters that are parts of the model's own."""
    return {
        row["path"]: (row["shape"], spec)
        for row, spec in zip(plan.rows(), plan.partitions, strict=True)
        if "stored apart" in row["reason"]
    }


def check_gradients(plan, grads, expected, rtol, atol):
    """The gradients of stored parameters are those of the model's own, taken apart."""
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol, atol),
        grads,
        plan.store(expected),
    )


@pytest.mark.parametrize("name", APART)
def test_each_part_of_a_fused_kernel_is_split_by_itself(name):
    found = apart(plan_sharding(*ZOO[name], MESH, apart=True))
    assert {path: found[path] for path in APART[name]} == APART[name]


@pytest.mark.parametrize("name", ZOO)
def test_nothing_else_is_taken_apart(name):
    plan = plan_sharding(*ZOO[name], MESH, apart=True)
    assert bool(apart(plan)) == (name in APART)
    shapes = jax.eval_shape(plan.store, ZOO[name][1])
    assert [leaf.shape for leaf in jax.tree.leaves(shapes)] == list(plan.stored)
    if name not in APART:
        assert plan.specs == plan_sharding(*ZOO[name], MESH).specs


@pytest.mark.parametrize("name", APART)
def test_nothing_moves_between_the_parts(name):
    """One program a model: loss and gradients as on one device, and no array changes its layout."""
    forward, params, batch = ZOO[name]
    plan = plan_sharding(forward, params, batch, MESH, apart=True)
    mesh = jax.make_mesh((1, 1, 4), ("data", "fsdp", "model"), (AxisType.Auto,) * 3)

    def step(run):
        return jax.value_and_grad(lambda p, b: jnp.mean(run(p, b) ** 2))

    params, batch = values(params, V), values(batch, V, 1)
    split = jax.tree.map(lambda spec: NamedSharding(mesh, spec), plan.specs)
    stored = plan.store(params)
    program = jax.jit(step(plan.forward), in_shardings=(split, NamedSharding(mesh, P())))
    compiled = program.lower(stored, batch).compile(UNOPTIMISED)
    loss, grads = compiled(jax.device_put(stored, split), batch)
    expected_loss, expected = jax.jit(step(forward))(params, batch)
    np.testing.assert_allclose(loss, expected_loss, 1e-5)
    check_gradients(plan, grads, expected, 1e-4, 1e-5)
    text = compiled.as_text()
    assert " all-reduce(" in text
    assert " all-to-all(" not in text and " collective-permute(" not in text


@pytest.mark.parametrize("name", ["gpt2", "gpt2_unrolled", "fused"])
def test_a_kernel_no_part_of_which_is_split_is_whole_itself(name):
    """4 heads do not divide by 3, the 96 columns of the kernel do: its shards would be sent, to be parts."""
    plan = plan_sharding(*ZOO[name], {"model": 3}, adapt=True, apart=True)
    assert "all-to-all" not in {one.kind for one in predict_collectives(plan)}
    rows = [row for row in plan.rows() if "qkv" in row["path"]]
    assert rows and all("model" not in row["spec"] for row in rows)
    why = "whole: fused is not split: none of its parts (heads) is"
    assert {row["reason"] for row in rows} == {why}


PARAMS = shapes(t=(V, D), w=(D, 3 * F), b=(3 * F,), o=(F, D))


def gated(between):
    """A block whose fused kernel makes three parts; `between` is applied before they are cut."""

    def forward(p, batch):
        h = between(p["t"][batch["ids"]] @ p["w"] + p["b"])
        a, b, c = h[..., :F], h[..., F : 2 * F], h[..., 2 * F :]
        return (a * jax.nn.silu(b) + c) @ p["o"]

    return forward


BETWEEN = {
    "nothing": lambda h: h,
    "elementwise": lambda h: jnp.tanh(h) * 2 + h.astype(jnp.float32),
    "a constant": lambda h: h * np.linspace(0, 1, 3 * F, dtype=np.float32),
    "a call": lambda h: jax.jit(lambda x: jnp.sin(x) + x)(h),
    "remat": lambda h: jax.checkpoint(lambda x: jnp.sin(x) * x)(h),
    "a transpose": lambda h: h.transpose(2, 0, 1).transpose(1, 2, 0),
    "a reshape": lambda h: h.reshape(-1, 3 * F).reshape(h.shape),
    "what needs all": lambda h: h / jnp.sum(jnp.abs(h), -1, keepdims=True),
    "its own derivative": jax.nn.relu,
    "a loop": lambda h: jax.lax.scan(lambda c, _: (jnp.sin(c), None), h, None, 2)[0],
    "a constant of a loop": lambda h: jax.lax.scan(
        lambda c, _: (c + h[..., :F].sum(), None), 0.0, None, 2
    )[0]
    + h,
    "a split with an empty piece": lambda h: jnp.concatenate(jnp.split(h, [0, F], -1), -1),
    "a sum over rows": lambda h: h + h.sum(0, keepdims=True),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_whatever_lies_between_the_numbers_are_the_same(name):
    forward = gated(BETWEEN[name])
    plan = plan_sharding(forward, PARAMS, IDS, MESH, apart=True)
    params, batch = values(PARAMS, V), values(IDS, V, 1)
    run, expected = (
        jax.value_and_grad(lambda p, f=f: jnp.mean(f(p, batch) ** 2))
        for f in (plan.forward, forward)
    )
    (loss, grads), (want, wanted) = run(plan.store(params)), expected(params)
    np.testing.assert_allclose(loss, want, 1e-5)
    check_gradients(plan, grads, wanted, 1e-4, 1e-6)


@pytest.mark.parametrize("name", ["nothing", "elementwise", "a call", "a constant"])
def test_the_parts_stay_apart(name):
    plan = plan_sharding(gated(BETWEEN[name]), PARAMS, IDS, MESH, apart=True)
    assert plan.specs["w"] == (P("fsdp", "model"),) * 3 and plan.specs["o"] == P("model", "fsdp")
    text = str(jax.make_jaxpr(plan.forward)(plan.store(values(PARAMS, V)), values(IDS, V, 1)))
    assert "concatenate" not in text


def test_the_parameters_may_come_in_another_dtype():
    forward, params, batch = ZOO["gpt2_unrolled"]
    plan = plan_sharding(forward, params, batch, MESH, apart=True)
    half = jax.tree.map(lambda x: x.astype(jnp.bfloat16), values(params, V))
    out, expected = plan.forward(plan.store(half), values(batch, V, 1)), forward(
        half, values(batch, V, 1)
    )
    assert out.dtype == expected.dtype
    np.testing.assert_allclose(
        *(x.astype(jnp.float32) for x in (out, expected)), rtol=0.1, atol=0.1
    )
