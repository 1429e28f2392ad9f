"""Constraints by the parameter that something is computed with, as a project of an own class has them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from sharding.parted import values
from sharding.zoo import D, F, IDS, V, shapes

from redco_plan import LayerProduct, constrain, layer_products, plan_sharding, row_constraints
from redco_plan.apart.rewritten import Rewritten
from redco_plan.apart.run import run_apart
from redco_plan.apart.stored import Fused, take_apart

FREE = P.UNCONSTRAINED
ROWS = P(("data", "fsdp"), FREE, FREE)
PARAMS = shapes(t=(V, D), up=(D, F), b=(F,), down=(F, D))


def block(p, x):
    """x and what an MLP makes of it: the sum is what is left of its second product."""
    return x + jax.nn.gelu(x @ p["up"] + p["b"]) @ p["down"]


def scanned(p, x):
    return jax.lax.scan(lambda x, _: (block(p, x), None), x, None, 2)[0]


WAYS = {
    "as it is": block,
    "in a call": jax.jit(block),
    "computed twice": jax.checkpoint(block),
    "in a loop": scanned,
    "in a loop of unknown length": lambda p, x: jax.lax.fori_loop(
        0, jnp.int32(2), lambda _, x: block(p, x), x
    ),
    "in a branch": lambda p, x: jax.lax.cond(x.sum() > 0, block, lambda p, x: x, p, x),
    "views": lambda p, x: block(p | {"down": p["down"].T.astype("float32").T}, x),
}


def forward(way):
    return lambda p, batch: WAYS[way](p, p["t"][batch["ids"]])


def constraints(way, params, batch):
    """The shapes that the program constrains, and what it computes."""
    run = jax.jit(lambda p, b: run_apart(forward(way), p, b, activations={"down": ROWS, "t": ROWS}))
    mesh = jax.make_mesh((1, 2, 1), ("data", "fsdp", "model"), (AxisType.Auto,) * 3)
    with jax.set_mesh(mesh):
        return str(run.trace(params, batch).jaxpr).count("sharding_constraint"), run(params, batch)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_computed_with_a_parameter_is_constrained_wherever_it_is(way):
    params, batch = values(PARAMS, V), values(IDS, V, 1)
    count, found = constraints(way, params, batch)
    assert count == 2  # of the table, and of the sum
    np.testing.assert_allclose(found, forward(way)(params, batch), 1e-5, 1e-5)


def test_a_loop_has_its_constraint_in_each_step():
    params, batch = values(PARAMS, V), values(IDS, V, 1)
    mesh = jax.make_mesh((1, 2, 1), ("data", "fsdp", "model"), (AxisType.Auto,) * 3)
    with jax.set_mesh(mesh):
        run = jax.make_jaxpr(partial(run_apart, forward("in a loop"), activations={"down": ROWS}))
        loops = [e for e in run(params, batch).jaxpr.eqns if e.primitive.name == "scan"]
    assert [str(one.params["jaxpr"]).count("sharding_constraint") for one in loops] == [1]


def test_rows_that_do_not_divide_are_free():
    params, batch = values(PARAMS, V), values(IDS, V, 1)
    one = jax.tree.map(lambda x: x[:1], batch)
    _, found = constraints("as it is", params, one)
    np.testing.assert_allclose(found, forward("as it is")(params, one), 1e-5, 1e-5)


@pytest.mark.parametrize("fsdp", [1, 2])
def test_a_plan_has_them_where_fsdp_splits_a_dim_that_stays(fsdp):
    """Whatever the size of fsdp in the plan: a mesh may have another."""
    plan = plan_sharding(forward("in a loop"), PARAMS, IDS, {"fsdp": fsdp, "model": 2})
    assert row_constraints(plan) == {"down": ROWS, "t": ROWS}
    assert plan.specs["up"] == P("fsdp", "model")  # summed over: the rows stay by themselves
    if fsdp > 1:  # and the program that the plan makes has no others
        mesh = jax.make_mesh((1, 2, 2), ("data", "fsdp", "model"), (AxisType.Auto,) * 3)
        with jax.set_mesh(mesh):
            made = jax.make_jaxpr(constrain(plan, forward("in a loop")))(PARAMS, IDS)
        assert str(made).count("sharding_constraint") == 2


def stacked(p, x):
    """Two layers, computed twice, whose first product is one of two halves."""

    def layer(x, of):
        gate, up = jnp.split(x @ of["pair"], 2, axis=-1)
        return x + (gate * up) @ of["down"], None

    return jax.lax.scan(jax.checkpoint(layer, policy=None), x, p)[0]


def test_products_of_layers_have_layouts_sizes_and_names():
    """By the path of the model's own parameter, also where a parameter is stored as several."""
    params, x = shapes(pair=(2, D, 2 * F), down=(2, F, D)), jax.ShapeDtypeStruct((16, 8, D), "f4")
    mesh = {"fsdp": 2, "model": 2}
    plan = plan_sharding(stacked, params, x, mesh, apart=True)
    assert plan.apart == {"pair": (2, (F, F))}
    products, rows = layer_products(plan), ("data", "fsdp")
    assert products == {
        # the layer hands it on, and the loop has it anyway
        "down": LayerProduct(P(rows, None, None), 0),
        "pair": LayerProduct(P(rows, None, "model"), 2 * 16 * 8 * F * 4),
    }
    specs = {path: one.layout for path, one in products.items()}
    run = partial(run_apart, stacked, form=Fused(plan.apart), activations=specs)
    with jax.set_mesh(jax.make_mesh((1, 2, 2), ("data", "fsdp", "model"), (AxisType.Auto,) * 3)):
        program = jax.make_jaxpr(run)(take_apart(values(params, 1), plan.apart), values(x, 1))
    (loop,) = (e for e in program.jaxpr.eqns if e.primitive.name == "scan")
    (layer,) = (e.params["jaxpr"] for e in loop.params["jaxpr"].jaxpr.eqns if "policy" in e.params)
    names = [e.params["name"] for e in layer.eqns if e.primitive.name == "name"]
    assert names == [
        "pair",
        "pair",
        "down",
    ]  # outside of calls, where the policy of a run sees them
    assert str(layer).count("sharding_constraint") == 3


@pytest.mark.parametrize(("sequence", "rest"), [(False, (FREE, FREE)), (True, (None, None))])
def test_a_product_that_sums_over_what_fsdp_splits_has_no_constraint(sequence, rest):
    params = shapes(up=(D, F), down=(F, D))
    plan = plan_sharding(
        lambda p, x: jax.nn.relu(x @ p["up"]) @ p["down"],
        params,
        jax.ShapeDtypeStruct((16, 8, D), jnp.float32),
        {"model": 2},
        sequence_parallel=sequence,
    )
    assert row_constraints(plan) == {"down": P(("data", "fsdp"), *rest)}


def test_a_sum_of_products_with_a_base_and_an_adapter_has_the_name_of_the_base():
    """The base is frozen, and comes beside the parameters: what the adapter adds is a part of the same sum."""
    params, frozen = shapes(a=(D, 2), b=(2, F)), shapes(w=(D, F))

    def forward(p, x, frozen):
        return x @ frozen["w"] + 3 * ((x @ p["a"]) @ p["b"])

    specs = {"w": P(("data", "fsdp"), None, "model"), "a": ROWS}
    run = partial(run_apart, forward, form=Rewritten(), activations=specs)
    x = values(jax.ShapeDtypeStruct((16, 8, D), "f4"), 1)
    with jax.set_mesh(jax.make_mesh((1, 2, 2), ("data", "fsdp", "model"), (AxisType.Auto,) * 3)):
        program = jax.make_jaxpr(run)(values(params, 1), x, values(frozen, 1))
    assert any(e.params.get("name") == "add_up" for e in program.jaxpr.eqns)
    names = [e.params["name"] for e in program.jaxpr.eqns if e.primitive.name == "name"]
    assert names == ["a", "w"]


def test_axes_that_a_shard_map_runs_over_split_no_more():
    """As where each device of `data` sums the gradients of its own rows over micro-batches."""
    params, batch = values(PARAMS, V), values(IDS, V, 1)
    own = partial(run_apart, forward("as it is"), activations={"down": ROWS, "t": ROWS})
    options = {"in_specs": (P(), P("data")), "out_specs": P("data"), "axis_names": {"data"}}
    with jax.set_mesh(jax.make_mesh((2, 2, 1), ("data", "fsdp", "model"), (AxisType.Auto,) * 3)):
        run = jax.jit(jax.shard_map(own, check_vma=False, **options))
        text, found = str(run.trace(params, batch).jaxpr), run(params, batch)
    assert text.count("sharding_constraint") == 2
    np.testing.assert_allclose(found, forward("as it is")(params, batch), 1e-5, 1e-5)


def test_what_a_shard_map_gives_has_no_constraint():
    """It may have a dim for devices, as experts that `model` splits, and so the rank of another product."""

    def forward(p, batch):
        def own(x, kernel):
            return (x @ kernel)[None]

        specs = (P("fsdp", None, "model"), P("model", None))
        out = P("model", "fsdp", None, None)
        parts = jax.shard_map(own, in_specs=specs, out_specs=out, check_vma=False)
        return parts(batch["x"] @ p["up"], p["down"]).sum(axis=0)

    params = values({name: PARAMS[name] for name in ("up", "down")}, V)
    batch = {"x": np.ones((4, 3, D), np.float32)}
    rows = P(("data", "fsdp"), FREE, FREE, FREE)
    with jax.set_mesh(jax.make_mesh((1, 2, 2), ("data", "fsdp", "model"), (AxisType.Auto,) * 3)):
        run = jax.make_jaxpr(partial(run_apart, forward, activations={"down": rows, "up": ROWS}))
        text = str(run(params, batch))
    assert text.count("sharding_constraint") == 1  # of what it is given
