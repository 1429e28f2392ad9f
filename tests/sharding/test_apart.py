"""Models whose layouts need a program of its own: heads among the rows, unequal parts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from sharding.parted import UNOPTIMISED, results, values
from sharding.zoo import V
from sharding.zoo_apart import INNER, STACK, STATE, WRITTEN, E, model

from redco_plan import plan_sharding, predict_collectives
from redco_plan.apart import forms
from redco_plan.apart.entries import join_products
from redco_plan.apart.merged import Merged
from redco_plan.apart.parts import Parts, Piece
from redco_plan.apart.run import run_apart
from redco_plan.apart.stored import Fused
from redco_plan.apart.sums import add_products_first

MESH = {"model": 4}
COLUMNS, ROWS, WHOLE, CHANNELS = P("fsdp", "model"), P("model", "fsdp"), P("fsdp", None), P("model")
LAYOUTS = {
    "merged": {"q": COLUMNS, "k": COLUMNS, "v": COLUMNS, "o": ROWS},
    "grouped": {"qkv/0": COLUMNS, "qkv/1": COLUMNS, "qkv/2": COLUMNS, "o": ROWS},
    "experts": {"i0": COLUMNS, "j0": ROWS, "i3": COLUMNS, "j3": ROWS},
    "indexed": {"i": P(None, *COLUMNS), "j": P(None, *ROWS)},
    "mamba2": {
        **{"in/0": COLUMNS, "in/1": COLUMNS, "in/2": WHOLE, "in/3": WHOLE, "in/4": COLUMNS},
        **{"c/0": P(None, None, "model"), "c/1": P(None, None, "fsdp"), "cb/0": CHANNELS},
        **{"cb/1": P(None), "a": CHANNELS, "n2": CHANNELS, "out": ROWS},
    },
}
LAYOUTS["mamba2_joined"] = LAYOUTS["mamba2"] | {"c/0": P("fsdp", None, "model")}


@functools.cache
def plan_of(name):
    return plan_sharding(*WRITTEN[name][0], MESH, apart=True)


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_layout_is_an_experts(name):
    plan = plan_of(name)
    specs = dict(zip((p.path for p in plan.parameters), plan.partitions, strict=True))
    assert {path: specs[f"l/0/{path}"] for path in LAYOUTS[name]} == LAYOUTS[name]


def sent(plan):
    """Bytes and times of the collectives of activations."""
    found = [one for one in predict_collectives(plan) if one.classes]
    return sorted((one.kind, one.phase, one.bytes * one.times) for one in found)


@pytest.mark.parametrize("name", ["merged", "grouped", "mamba2", "mamba2_joined"])
def test_it_sends_what_the_model_sends_that_the_expert_writes(name):
    assert sent(plan_of(name)) == sent(plan_sharding(*WRITTEN[name][1], MESH))


@pytest.mark.parametrize("name", ["merged", "grouped", "mamba2_joined", "experts", "indexed"])
def test_the_numbers_are_the_models(name):
    forward, params, batch = WRITTEN[name][0]
    plan = plan_of(name)
    params, batch = values(params, V), values(batch, V, 1)
    assert plan.own_forward is not forward
    found, expected = (
        jax.jit(function).lower(stored, batch).compile(UNOPTIMISED)(stored, batch)
        for function, stored in ((plan.forward, plan.store(params)), (forward, params))
    )
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["merged", "mamba2"])
def test_sharded_equals_unsharded(name):
    """Loss and gradients, those of the parts beside each other."""
    forward, params, batch = WRITTEN[name][0]
    plan = plan_of(name)
    params = values(params, V)
    (loss, wanted), (found, gradients) = results(forward, params, values(batch, V, 1), plan)
    np.testing.assert_allclose(found, loss, 1e-5)
    stored = plan.store(wanted)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-5), gradients, stored)


def test_a_model_that_needs_no_other_program_has_its_own():
    forward, params, batch = WRITTEN["merged"][1]
    plan = plan_sharding(forward, params, batch, MESH, apart=True)
    assert plan.own_forward is forward


def test_small_parts_are_whole_and_large_ones_split():
    dim, sizes = plan_of("mamba2").apart["l/1/in"]
    assert dim == 1 and sizes[:4] == (INNER, INNER, STATE, STATE)


@pytest.mark.parametrize("name", ["experts", "indexed"])
def test_experts_of_a_loop_are_summed_once(name):
    """Forward and backward, in each of two layers."""
    forward, params, batch = WRITTEN[name][0]
    residual = [one for one in predict_collectives(plan_of(name)) if one.array == "B S D"]
    assert all(one.kind == "all-reduce" for one in residual)
    assert sum(one.times for one in residual if "mlp" in one.classes) == 2 * 2
    apart = [one.array for one in predict_collectives(plan_sharding(forward, params, batch, MESH))]
    assert f"{E} of B S D" in apart


STYLES = {
    "all at once": "bsd,edf->bsef bsef,efd->bsd",
    "gates last": "bsd,edf->ebsf ebsf,efd->ebsd",
}


@pytest.mark.parametrize("name", ["indexed", *STYLES])
def test_stacks_that_a_router_chooses_from_are_experts(name):
    """Whatever takes them apart, the axis `expert` splits them."""

    def layer(w, x):
        first, second = STYLES[name].split()
        gate = jax.nn.softmax(x @ w["r"])
        if name == "gates last":
            y = jnp.einsum(second, jax.nn.relu(jnp.einsum(first, x, w["i"])), w["j"])
            return jnp.einsum("ebsd,bse->bsd", y, gate)
        return jnp.einsum(
            second, gate[..., None] * jax.nn.relu(jnp.einsum(first, x, w["i"])), w["j"]
        )

    forward, params, batch = WRITTEN["indexed"][0] if name == "indexed" else model(layer, **STACK)
    plan = plan_sharding(forward, params, batch, {"expert": 4})
    dims, specs = plan.dims["l"][0], plan.specs["l"][0]
    assert dims["i"][0] == dims["j"][0] == "experts"
    assert specs["i"] == P("expert", "fsdp", "model") and specs["j"][0] == "expert"


def test_chunks_of_positions_come_together_again():
    plan = plan_of("mamba2")
    arrays = {one.array for one in predict_collectives(plan) if "heads" in one.classes}
    assert "B S D" in arrays


def test_parts_that_are_whole_come_first():
    """The gradient adds the products up in the other order: the all-reduce is of those that are split."""
    stored = {"in": tuple(jnp.ones((2, size)) for size in (3, 1, 2))}
    specs = {"in/0": P("fsdp", "model"), "in/1": P("fsdp", None), "in/2": P("fsdp", "model")}

    def forward(params, x):
        z, b, c = jnp.split(x @ params["in"], [3, 4], -1)
        return z.sum() + b.sum() + c.sum()

    apart = {"in": (1, (3, 1, 2))}
    run = functools.partial(run_apart, forward, form=Fused(apart, specs))
    program = str(jax.make_jaxpr(run)(stored, jnp.ones((5, 2))))
    dots = [line.split("[5,")[1][0] for line in program.splitlines() if "= dot_general" in line]
    assert dots == ["1", "3", "2"]


def test_every_second_of_parts_is_that_of_the_whole():
    """A part of three ends with a first of two, so the next one begins with a second."""
    stored = {"in": tuple(jnp.eye(5)[:, part] for part in (slice(3), slice(3, 5)))}

    def forward(params, x):
        return (x @ params["in"])[:, ::2]

    x = jnp.arange(5.0)[None]
    specs = dict.fromkeys(("in/0", "in/1"), P("fsdp", "model"))
    found = run_apart(forward, stored, x, form=Fused({"in": (1, (3, 2))}, specs))
    assert found.tolist() == [[0, 2, 4]]


@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (3, 1)])
def test_parts_of_one_element_are_what_an_array_is_unstacked_to(sizes):
    whole = jnp.arange(5.0 * sum(sizes)).reshape(5, -1)
    stored = {"in": tuple(jnp.split(whole, [sizes[0]], axis=1))}
    form = Fused({"in": (1, sizes)}, dict.fromkeys(("in/0", "in/1"), P("fsdp", "model")))

    def forward(params, x):
        return jnp.unstack(x @ params["in"], axis=1)

    x = jnp.eye(5)
    found = run_apart(forward, stored, x, form=form)
    np.testing.assert_array_equal(jnp.stack(found, axis=1), whole)
    program = str(jax.make_jaxpr(functools.partial(run_apart, forward, form=form))(stored, x))
    assert ("concatenate" in program) is (sizes != (1, 1))  # of parts, where these are not whole


def convolved(image, kernel, groups):
    numbers = ("NWC", "WIO", "NWC")
    return jax.lax.conv_general_dilated(
        image, kernel, (1,), "SAME", dimension_numbers=numbers, feature_group_count=groups
    )


CONVOLVED = {
    "each channel of its own": lambda p, x: convolved(x @ p["in"], jnp.ones((3, 1, 5)), 5),
    "of all channels": lambda p, x: convolved(x @ p["in"], jnp.arange(60.0).reshape(3, 5, 4), 1),
    "a kernel's parts, each of its own": lambda p, x: convolved(x, p["k"], 5),
    "a kernel's parts, of all channels": lambda p, x: convolved(x[..., :1], p["k"], 1),
    "both": lambda p, x: convolved(x @ p["in"], p["k"], 5),
}


@pytest.mark.parametrize("name", CONVOLVED)
def test_convolutions_of_parts_are_those_of_the_whole(name):
    params = {"in": jnp.arange(25.0).reshape(5, 5) % 7, "k": jnp.arange(15.0).reshape(3, 1, 5)}
    stored = {path: (x[..., :3], x[..., 3:]) for path, x in params.items()}
    form = Fused(
        {"in": (1, (3, 2)), "k": (2, (3, 2))},
        dict.fromkeys(("in/0", "in/1"), P("fsdp", "model"))
        | dict.fromkeys(("k/0", "k/1"), P(None, None, "model")),
    )
    x = jnp.arange(30.0).reshape(1, 6, 5)
    found = run_apart(CONVOLVED[name], stored, x, form=form)
    np.testing.assert_allclose(found, CONVOLVED[name](params, x), 1e-6)


@pytest.mark.parametrize(
    "product", ["sd,df->sf", "df,sd->fs", "sd,df->fs", "sd,fd->sf", "ds,df->sf"]
)
def test_products_with_parts_are_those_of_the_whole(product):
    """Whatever side and dim the parts are on."""
    left, right = product.partition("->")[0].split(",")
    kernel = left if "f" in left else right
    dim, other = kernel.index("f"), (left, right)[kernel == left]
    sizes = {"s": 2, "d": 4, "f": 5}
    shape = [sizes[name] for name in kernel]
    whole = jnp.arange(20.0).reshape(shape) % 7
    stored = {"in": tuple(jnp.split(whole, [3], dim))}
    spec = P(*("model" if name == "f" else None for name in kernel))
    form = Fused({"in": (dim, (3, 2))}, dict.fromkeys(("in/0", "in/1"), spec))

    def forward(params, x):
        operands = (params["in"], x) if kernel == left else (x, params["in"])
        return jnp.sin(jnp.einsum(product, *operands))

    x = jnp.arange(8.0).reshape([sizes[name] for name in other]) % 3
    run = functools.partial(run_apart, forward, form=form)
    np.testing.assert_allclose(run(stored, x), forward({"in": whole}, x), 1e-5, 1e-6)
    assert str(jax.make_jaxpr(run)(stored, x)).count("= sin") == 2


def test_of_forms_that_meet_the_rules_of_the_lowest_are_asked_first(monkeypatch):
    monkeypatch.setattr(forms, "RULES", {})
    for form in (Merged, Parts, Merged, Piece):
        forms.rule(form, "any")(print)
    assert [form for form, _ in forms.RULES["any"]] == [Parts, Piece, Merged, Merged]


def joined(function):
    """The operations of a function of x, i and j, and of that whose products are joined."""
    program = jax.make_jaxpr(function)(*[jnp.ones((2, 2))] * 3).jaxpr
    return [[eqn.primitive.name for eqn in x.eqns] for x in (program, join_products(program))]


def test_products_of_an_array_are_made_where_the_first_is():
    before, after = joined(lambda x, i, j: jnp.sin(x @ i) + x @ j)
    assert before == ["dot_general", "sin", "dot_general", "add"]
    assert after[1:] == ["sin", "add"]


def test_a_product_of_what_comes_later_stays():
    before, after = joined(lambda x, i, j: x @ (j * (x @ i)))
    assert before == after == ["dot_general", "mul", "dot_general"]


SCALES = {"a number": (), "of each row": (2, 3, 1), "of each column": (4,)}


@pytest.mark.parametrize("name", SCALES)
def test_scaled_products_are_added_up_first_whatever_scales_them(name):
    keys = iter(jax.random.split(jax.random.key(0), 6))
    shapes = [(2, 3, 5), (5, 4), SCALES[name]] * 2
    arrays = [jax.random.normal(next(keys), shape) for shape in shapes]

    def forward(x_BSD, w_DE, scale, y_BSD, v_DE, other):
        return scale * (x_BSD @ w_DE) + other * (y_BSD @ v_DE)

    program = jax.make_jaxpr(forward)(*arrays)
    added = add_products_first(program.jaxpr)
    assert added is not program.jaxpr
    [found] = jax.extend.core.jaxpr_as_fun(program.replace(jaxpr=added))(*arrays)
    np.testing.assert_allclose(found, forward(*arrays), 1e-5, 1e-6)


def test_a_function_with_a_gradient_of_its_own_is_as_it_is():
    function = jax.custom_jvp(lambda x, i, j: x @ i + x @ j)
    function.defjvp(lambda values, tangents: (function(*values), tangents[0]))
    program = jax.make_jaxpr(function)(*[jnp.ones((2, 2))] * 3).jaxpr
    assert str(join_products(program)) == str(program)


def test_parts_are_joined_along_another_dim():
    """A state, whole as it is stored, and what comes after it."""
    stored = {"in": tuple(jnp.eye(5)[:, part] for part in (slice(3), slice(3, 5)))}
    form = Fused({"in": (1, (3, 2))}, dict.fromkeys(("in/0", "in/1"), P("fsdp", "model")))

    def forward(params, x):
        return jnp.sin(jnp.concatenate([jnp.ones((2, 5)), x @ params["in"]]))

    x = jnp.arange(5.0)[None]
    run = functools.partial(run_apart, forward, form=form)
    np.testing.assert_allclose(run(stored, x), forward({"in": jnp.eye(5)}, x), 1e-6)
    assert str(jax.make_jaxpr(run)(stored, x)).count("= sin") == 2
