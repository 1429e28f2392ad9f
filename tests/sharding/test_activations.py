"""The layouts of activations, and which of them the compiler is told."""

import jax
import jax.numpy as jnp
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec as P
from sharding.decoder import (
    BOTH,
    EXPERT,
    IDS,
    NAMED,
    PARAMS,
    PLAIN,
    ROWS,
    V,
    B,
    D,
    F,
    S,
    attend,
    decoder,
)
from sharding.zoo import norm, shapes

from redco_new.generate.read import plan_request
from redco_new.render.template import open_template
from redco_new.request import Request
from redco_plan import constrain, plan_sharding


@pytest.mark.parametrize("sequence", [False, True])
def test_each_named_activation_has_the_layout_of_its_classes(sequence):
    plan = plan_sharding(NAMED, PARAMS, IDS, {"model": 2}, sequence_parallel=sequence)
    assert plan.activations == {
        "residual": P(ROWS, "model" if sequence else None, None),
        "gathered": P(ROWS, None, None),
        "heads": P(ROWS, None, "model", None),
        "joined": P(ROWS, None, "model"),
        "hidden": P(ROWS, None, "model"),
        "logits": P(ROWS, None, "model"),
    }


def test_positions_are_split_but_where_they_mix_which_heads_are():
    plan = plan_sharding(NAMED, PARAMS, IDS, {"fsdp": 2, "context": 2, "model": 2})
    assert plan.activations == {
        "residual": P(ROWS, "context", None),
        "gathered": P(ROWS, "context", None),
        "heads": P(ROWS, "context", "model", None),
        "joined": P(ROWS, None, ("model", "context")),
        "hidden": P(ROWS, "context", "model"),
        "logits": P(ROWS, "context", "model"),
    }
    both = ("fsdp", "context")
    assert plan.specs["l"][0]["i"] == P(both, "model") and plan.specs["t"] == P("model", both)


def test_names_are_keys_only():
    def swapped(x, name):
        return checkpoint_name(x, {"residual": "hidden", "hidden": "residual"}.get(name, name))

    options = {"mesh": {"model": 2}, "sequence_parallel": True}
    plan = plan_sharding(NAMED, PARAMS, IDS, **options)
    other = plan_sharding(decoder(swapped), PARAMS, IDS, **options)
    assert other.activations["hidden"] == plan.activations["residual"]
    assert other.activations["residual"] == plan.activations["hidden"]
    assert held(plan, NAMED) == held(plan, PLAIN)


def test_a_name_of_several_layouts_is_left_out():
    forward = decoder(lambda x, name: checkpoint_name(x, "it" if name != "logits" else name))
    assert list(plan_sharding(forward, PARAMS, IDS, {"model": 2}).activations) == ["logits"]


def test_rows_that_are_just_looked_up_lie_as_their_tables_do():
    def forward(p, batch):
        rows = checkpoint_name(p["t"][batch["ids"]].astype(jnp.bfloat16), "rows")
        x = checkpoint_name(rows, "residual")
        return checkpoint_name(x @ p["u"], "logits")

    plan = plan_sharding(forward, shapes(t=(V, D), u=(D, V)), IDS, {"fsdp": 2, "model": 2})
    assert plan.activations == {
        "rows": P("data", None, "fsdp"),
        "residual": P(ROWS, None, None),
        "logits": P(ROWS, None, "model"),
    }


def _alone(forward):
    batch = {"x": jax.ShapeDtypeStruct((B, S, D), jnp.float32)}
    return plan_sharding(forward, shapes(i=(D, F)), batch, {"data": 2}).layouts.rows_alone


@pytest.mark.parametrize(
    "mix",
    [
        lambda h: h - h.mean(0, keepdims=True),
        lambda h: jnp.einsum("bsf,csf->bc", h, h),
        lambda h: h[:, None] - h[None],
        lambda h: jnp.sort(h, axis=0),
        lambda h: h * jax.random.bernoulli(jax.random.key(0), 0.9, h.shape),
    ],
)
def test_rows_that_meet_or_draw_random_numbers_are_not_alone(mix):
    assert _alone(lambda p, batch: batch["x"] @ p["i"])
    assert not _alone(lambda p, batch: mix(batch["x"] @ p["i"]))


def test_a_size_that_does_not_divide_is_the_compilers():
    plan = plan_sharding(
        NAMED,
        PARAMS,
        {"ids": jax.ShapeDtypeStruct((3, 13), jnp.int32)},
        {"fsdp": 2, "model": 4},
        sequence_parallel=True,
    )
    assert plan.activations["residual"] == P(P.UNCONSTRAINED, P.UNCONSTRAINED, None)


def test_what_experts_make_lies_by_expert_and_what_is_chosen_by_row():
    def forward(p, batch):
        gate = checkpoint_name(batch["x"] @ p["r"], "gate")
        h = checkpoint_name(jnp.einsum("bsd,edf->bsef", batch["x"], p["i"]), "made")
        h = jnp.einsum("bsef,efd->bsed", jax.nn.silu(h), p["o"])
        return jnp.einsum("bse,bsed->bsd", gate, h)

    params = shapes(r=(D, 8), i=(8, D, F), o=(8, F, D))
    batch = {"x": jax.ShapeDtypeStruct((B, S, D), jnp.float32)}
    plan = plan_sharding(forward, params, batch, EXPERT)
    assert plan.activations == {
        "gate": P((*ROWS, "expert"), None, None),
        "made": P(ROWS, None, "expert", "model"),
    }


def constrained(plan, forward, batch=IDS):
    """The traced program with its constraints."""
    mesh = jax.sharding.AbstractMesh(tuple(plan.mesh.values()), tuple(plan.mesh))
    with jax.sharding.use_abstract_mesh(mesh):
        return jax.make_jaxpr(constrain(plan, forward))(PARAMS, batch).jaxpr


def specs(jaxpr):
    """The layouts of the constraints, in the order of the program."""
    eqns = (eqn for eqn in jaxpr.eqns if eqn.primitive.name == "sharding_constraint")
    return [eqn.params["sharding"].spec for eqn in eqns]


def held(plan, forward, batch=IDS):
    return specs(constrained(plan, forward, batch))


def padded(layouts):
    """Layouts of three dims."""
    return [P(*spec, *[None] * (3 - len(spec))) for spec in layouts]


def test_sequence_parallelism_holds_what_enters_and_leaves_the_products():
    plan = plan_sharding(PLAIN, PARAMS, IDS, {"model": 2}, sequence_parallel=True)
    stream, whole, split = P(ROWS, "model"), P(ROWS), P(ROWS, None, "model")
    attention, mlp = [whole, *[split] * 4, stream], [whole, *[split] * 2, stream]
    expected = [stream, *(attention + mlp) * 2, whole, split]
    assert held(plan, PLAIN) == padded(expected)


def test_fsdp_holds_the_rows_of_the_residual_stream_only():
    plan = plan_sharding(PLAIN, PARAMS, IDS, BOTH)
    assert held(plan, PLAIN) == [P(ROWS, P.UNCONSTRAINED, P.UNCONSTRAINED)] * 5
    assert held(plan_sharding(PLAIN, PARAMS, IDS, {"model": 4}), PLAIN) == []


def test_what_returns_nothing_is_left_as_it_is():
    def forward(p, batch):
        x = PLAIN(p, batch)
        jax.debug.print("{}", x[0, 0, 0])
        return x

    plan = plan_sharding(forward, PARAMS, IDS, {"model": 2}, sequence_parallel=True)
    assert held(plan, forward) == held(plan, PLAIN)


def test_another_batch_size_is_held_too():
    plan = plan_sharding(PLAIN, PARAMS, IDS, BOTH)
    other = {"ids": jax.ShapeDtypeStruct((2 * B, 3), jnp.int32)}
    assert held(plan, PLAIN, other) == held(plan, PLAIN)


def test_parallel_products_are_held_as_one_sum():
    def forward(p, batch):
        x, w = p["t"][batch["ids"]], p["l"][0]
        h = norm(x, w["n"])
        return x + (attend(w, h, lambda x, _: x) @ w["o"] + jax.nn.gelu(h @ w["i"]) @ w["j"])

    plan = plan_sharding(forward, PARAMS, IDS, {"model": 2}, sequence_parallel=True)
    assert held(plan, forward).count(P(ROWS, "model", None)) == 2


def test_a_function_that_is_called_with_two_layouts_has_the_constraints_of_each():
    @jax.jit
    def project(x, w):
        return x @ w

    def forward(p, batch):
        x = p["t"][batch["ids"]]
        for w in p["l"]:
            x = x + project(jax.nn.relu(project(x, w["q"])), w["k"])
        return x @ p["u"]

    plan = plan_sharding(forward, PARAMS, IDS, {"model": 2}, sequence_parallel=True)
    called = [eqn for eqn in constrained(plan, forward).eqns if eqn.params.get("name") == "project"]
    columns, rows = [P(ROWS), P(ROWS, None, "model")], [P(ROWS, None, "model"), P(ROWS, "model")]
    assert [specs(eqn.params["jaxpr"].jaxpr) for eqn in called] == [
        padded(columns),
        padded(rows),
    ] * 2


def test_an_axis_that_is_taken_apart_and_a_table_that_is_padded():
    """Six heads in 2 parts on 4 devices, all else in 4; a vocabulary of 90 has 92 rows in memory."""
    forward, options = decoder(checkpoint_name, 6), {"adapt": True, "sequence_parallel": True}
    batch = {"ids": jax.ShapeDtypeStruct((B, 16), jnp.int32)}
    odd = PARAMS | shapes(t=(90, D), u=(D, 90))
    plan = plan_sharding(forward, odd, batch, {"model": 4}, **options)
    model = ("model_1", "model_2")
    assert plan.activations == {
        "residual": P(ROWS, model, None),
        "gathered": P(ROWS, None, None),
        "heads": P(ROWS, None, "model_1", None),
        "joined": P(ROWS, None, "model_1"),
        "hidden": P(ROWS, None, model),
        "logits": P(ROWS, None, P.UNCONSTRAINED),
    }


def test_what_one_product_gathers_and_another_takes_in_parts_lies_in_parts():
    """Both have the name h_BSD. Of so many tokens it sends less to gather the MLP's parameters than what they multiply."""
    flags = {"size": "7b", "mesh": "data=1,model=8", "sequence_parallel": True}
    with open_template() as template:
        request = Request.from_flags("a", "llama", sequence_length=2**17, **flags)
        plan = plan_request(request, template)
    assert plan.activations["h_BSD"] == plan.activations["x_BSD"] == P(ROWS, "model", None)
