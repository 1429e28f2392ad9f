import re
from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import PartitionSpec as P

from redco_runtime.layout.activations import lay_out, layouts
from redco_runtime.nn.embedding import look_up
from redco_runtime.base.messages import UserError
from redco_runtime.step import once
from redco_runtime.step.across import add_across
from redco_runtime.step.once import OnceAStep
from redco_runtime.step.gradients import mean_and_gradients, weighted_sum, weighted_sums
from redco_runtime.nn.losses import cross_entropy
from redco_runtime.layout.mesh import make_mesh, split_rows
from redco_runtime.base.state import ModelState

KEY = jax.random.key(0)


def loss(model, batch, key):
    """Squared errors, of which each row counts as often as its weight says."""
    losses = (batch["x"] @ model.params["w"] - batch["y"]) ** 2
    return (losses, batch["weight"]), model.variables


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    batch = {
        "x": rng.normal(size=(8, 3)).astype(np.float32),
        "y": rng.normal(size=8).astype(np.float32),
        "weight": np.array([0, 1, 1, 3, 0, 0, 0, 2], np.float32),
    }
    return {"w": jnp.ones(3)}, jax.tree.map(jnp.asarray, batch)


@pytest.mark.parametrize("micro_batches", [1, 2, 4, 8])
def test_micro_batches_of_uneven_weights_give_the_mean_of_the_whole_batch(problem, micro_batches):
    params, batch = problem

    def mean(params):
        (losses, weights), _ = loss(ModelState(params, {}), batch, KEY)
        return jnp.sum(losses * weights) / jnp.sum(weights)

    expected = jax.value_and_grad(mean)(params)
    found = jax.jit(partial(mean_and_gradients, loss, micro_batches=micro_batches))(
        ModelState(params, {}), batch, KEY
    )
    assert found[2] == {}
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), found[:2], expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_devices_of_data_reduce_their_gradients_once_whatever_the_micro_batches(problem, dtype):
    params, batch = problem
    compute = partial(mean_and_gradients, loss, micro_batches=2)
    expected = compute(ModelState(params, {}), batch, KEY)
    with jax.set_mesh(make_mesh({"data": 2, "fsdp": 1, "model": 2})):
        step = jax.jit(
            partial(compute, once=OnceAStep(("data", "fsdp"), dtype)),
            in_shardings=(ModelState({"w": P()}, {}), P("data"), P()),
        )
        sharded = step(ModelState(params, {}), batch, KEY)
        text = step.lower(ModelState(params, {}), batch, KEY).as_text()
    tolerance = 1e-6 if dtype == "float32" else 1e-2
    jax.tree.map(partial(np.testing.assert_allclose, rtol=tolerance), sharded, expected)
    assert (
        f"2x3x{dtype.replace('float', 'f')}" in text
    )  # a sum of each device: nothing is added up before


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_gradients_cross_a_slow_axis_once_and_are_added_up_in_float32(dtype, micro_batches):
    rng = np.random.default_rng(0)
    x_BD, y_B = rng.normal(size=(8, 6)).astype(np.float32), rng.normal(size=8).astype(np.float32)
    batch = jax.tree.map(jnp.asarray, {"x": x_BD, "y": y_B, "weight": np.ones(8, np.float32)})
    model = ModelState({"w": jnp.linspace(-1, 1, 6)}, {})
    specs = ModelState({"w": P("fsdp")}, {})
    once = OnceAStep(("data", "fsdp"), dtype, specs, add_across)
    compute = partial(mean_and_gradients, loss, micro_batches=micro_batches, once=once)
    with jax.set_mesh(make_mesh({"data": 2, "fsdp": 2})):
        step = jax.jit(compute, in_shardings=(specs, P("data"), P()))
        value, grads, _ = step(model, batch, KEY)
        text = step.lower(model, batch, KEY).compile().as_text()

    def own(rows):
        """The gradients of a device's own rows, of which four lie together, as they cross."""
        sums = jax.grad(lambda w: ((x_BD[rows] @ w - y_B[rows]) ** 2).sum())(model.params["w"])
        return sums.astype(dtype).astype(jnp.float32)

    crossed = sum(own(slice(i, i + 4)) for i in (0, 4))
    expected = crossed.astype(dtype).astype(jnp.float32) / 8
    np.testing.assert_allclose(grads["w"], expected, rtol=1e-5)
    np.testing.assert_allclose(value, ((x_BD @ model.params["w"] - y_B) ** 2).mean(), rtol=1e-5)
    short = {"bfloat16": "u16", "float32": "u32"}[dtype]
    for kind in ("all-to-all", "all-gather"):  # in no loop over micro-batches
        sent = re.findall(rf"= \(?{short}\[[^\n]* {kind}\(", text.partition("ENTRY")[2])
        assert len(sent) == text.count(f" {kind}(") == 1


@pytest.mark.parametrize("axis", ["fsdp", "expert", "model"])
@pytest.mark.parametrize(("data", "other"), [(2, 2), (1, 4)])
@pytest.mark.parametrize("specs", [None, ModelState({"w": P(None)}, {})], ids=["", "specs"])
def test_data_and_expert_reduce_once_beside_any_other_axis(problem, axis, data, other, specs):
    params, batch = problem
    rows = ("data", "fsdp", "expert")
    once = OnceAStep(rows, specs=specs)
    step = partial(mean_and_gradients, loss, micro_batches=2, once=once)
    mesh = jax.sharding.AbstractMesh((data, other), ("data", axis))
    with jax.sharding.use_abstract_mesh(mesh):
        text = str(jax.make_jaxpr(step)(ModelState(params, {}), batch, KEY))
    own = data * (other if axis == "expert" and specs else 1)
    assert ("shard_map" in text) == (own > 1) == (f"f32[{own},3]" in text)


def test_a_device_has_its_own_experts_beside_sums_over_data(problem):
    params, batch = problem

    def with_experts(model, batch, key):
        (losses, weights), variables = loss(model, batch, key)
        return (losses + model.params["e"].sum(), weights), variables

    specs = ModelState({"w": P(None), "e": P("expert")}, {})
    rows = ("data", "expert")
    once = OnceAStep(rows, specs=specs)
    step = partial(mean_and_gradients, with_experts, micro_batches=2, once=once)
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((2, 2), rows)):
        model = ModelState(params | {"e": jnp.ones((4, 3))}, {})
        text = str(jax.make_jaxpr(step)(model, batch, KEY))
    assert "f32[1,2,3]" in text and "f32[1,4,3]" not in text


@pytest.mark.parametrize(
    ("pick", "model", "once"),
    [("label", 2, False), ("row", 2, False), ("row", 1, True), ("label", 1, True), ("", 2, True)],
)
def test_a_loss_that_picks_elements_is_on_all_devices_where_two_more_axes_split(
    capsys, pick, model, once
):
    def loss(model, batch, key):
        logits_BC = batch["x"] @ model.params["w"]
        if pick == "row":
            logits_BC = jnp.take(model.params["w"].astype(jnp.bfloat16), batch["y"] % 3, axis=0)
        if pick == "label":
            losses_B = jnp.take_along_axis(logits_BC, batch["y"][:, None], axis=1)[:, 0]
        else:
            losses_B = jnp.where(jnp.arange(4)[None] == batch["y"][:, None], logits_BC, 0).sum(1)
        return (losses_B, jnp.ones(8)[: len(losses_B)]), {}

    state = ModelState({"w": jnp.ones((3, 4))}, {})
    batch = {"x": jnp.ones((8, 3)), "y": jnp.arange(8) % 4}
    sums = OnceAStep(("data", "fsdp"))
    step = partial(mean_and_gradients, loss, micro_batches=2, once=sums)
    mesh = jax.sharding.AbstractMesh((2, 2, model), ("data", "fsdp", "model"))
    with jax.sharding.use_abstract_mesh(mesh):
        text = str(jax.make_jaxpr(step)(state, batch, KEY))
    assert ("shard_map" in text) == once == ("fsdp and model" not in capsys.readouterr().out)


class Tied(nnx.Module):
    """Scores of words for rows of a table, by the table."""

    def __init__(self, *, rngs):
        self.embed = nnx.Embed(8, 4, rngs=rngs)

    def logits(self, x_BSD):
        return x_BSD @ self.embed.embedding[...].astype(x_BSD.dtype).T


def tied_loss(model, batch, key, method=True):
    """Cross-entropy in chunks of two positions, of the words themselves."""
    graph = nnx.graphdef(Tied(rngs=nnx.Rngs(0)))
    tied, ids_BS = nnx.merge(graph, model.params), batch["ids"]
    table = {"rows_BSD": P("data", None, "fsdp"), "x_BSD": P(("data", "fsdp"), None, None)}
    with layouts(table):
        rows_BSD = look_up(tied.embed.embedding[...], ids_BS, "float32", "rows_BSD")
        x_BSD = lay_out(rows_BSD, "x_BSD")
        logits_fn = tied.logits if method else lambda x_BPD: tied.logits(x_BPD)
        losses_BS = cross_entropy(logits_fn, x_BSD, jnp.roll(ids_BS, 1, axis=1), 2)
    return (losses_BS, batch["weight"]), model.variables


# Fewer positions than an all-reduce sends rows, and more.
@pytest.mark.parametrize(
    ("axis", "S", "method"),
    [("fsdp", 4, True), ("fsdp", 32, True), ("model", 32, True), ("fsdp", 4, False)],
)
def test_a_head_in_chunks_within_each_device_of_data(axis, S, method):
    params = nnx.to_pure_dict(nnx.state(Tied(rngs=nnx.Rngs(0))))
    ids_BS = jax.random.randint(KEY, (8, S), 0, 8)
    batch = {"ids": ids_BS, "weight": (ids_BS > 1).astype(jnp.float32)}
    specs = {"embed": {"embedding": P("model", "fsdp")}}

    def run(sizes, micro_batches):
        mesh = make_mesh(
            {"data": 1, "fsdp": 1, "model": 1} | sizes, jax.devices()[: prod(sizes.values())]
        )
        once = OnceAStep(("data", "fsdp"))
        compute = partial(mean_and_gradients, partial(tied_loss, method=method), once=once)
        with jax.set_mesh(mesh):
            step = jax.jit(
                partial(compute, micro_batches=micro_batches),
                in_shardings=(ModelState(specs, {}), P(("data", "fsdp")), P()),
                out_shardings=(P(), specs, {}),
            )
            return jax.device_get(step(ModelState(params, {}), batch, KEY))

    found, expected = run({"data": 2, axis: 2}, 2), run({"data": 1}, 1)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), found, expected)


def test_a_batch_that_weighs_nothing_has_no_loss_and_no_gradient(problem):
    params, batch = problem
    batch["weight"] = jnp.zeros(8)
    value, grads, _ = mean_and_gradients(loss, ModelState(params, {}), batch, KEY, 2)
    assert value == 0 and not grads["w"].any()


def test_a_scalar_is_one_value_of_weight_one(problem):
    params, batch = problem

    def scalar(model, batch, key):
        return jnp.sum(model.params["w"] ** 2) + 0 * batch["x"].sum(), model.variables

    value, grads, _ = mean_and_gradients(scalar, ModelState(params, {}), batch, KEY, 4)
    np.testing.assert_allclose(value, 3.0)
    np.testing.assert_allclose(grads["w"], 2.0)


def test_rows_that_are_not_valid_do_not_count_even_if_their_loss_is_infinite():
    losses = jnp.array([[1.0, 2.0], [jnp.inf, jnp.nan]])
    total, weight = weighted_sum((losses, jnp.ones((2, 2))), jnp.array([True, False]))
    assert (total, weight) == (3.0, 2.0)


def test_terms_are_no_part_of_what_is_evaluated():
    ones = jnp.ones((2, 2))
    assert weighted_sum((ones, ones, {"router_loss": (jnp.inf, 1.0)})) == (4.0, 4.0)


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_a_term_of_each_row_has_the_weights_of_the_losses(problem, micro_batches):
    """Whatever the micro-batches, in training as of held-out rows; with a factor it is learned from."""
    params, batch = problem

    def with_terms(model, batch, key):
        (losses, weights), variables = loss(model, batch, key)
        return (
            losses,
            weights,
            {"twice": (2 * losses, 0.5), "all": (jnp.float32(7), 0.0)},
        ), variables

    model = ModelState(params, {})
    plain, grads, _ = mean_and_gradients(loss, model, batch, KEY, 1)
    means, both, _ = mean_and_gradients(with_terms, model, batch, KEY, micro_batches)
    expected = {"loss": plain, "twice": 2 * plain, "all": 7.0}
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), means, expected)
    np.testing.assert_allclose(both["w"], 2 * grads["w"], rtol=1e-5)
    sums, weight = weighted_sums(with_terms(model, batch, KEY)[0], jnp.arange(8) < 4)
    losses = np.asarray(loss(model, batch, KEY)[0][0] * batch["weight"])[:4].sum()
    assert weight == 5 and sums.keys() == {"loss", "twice"}
    np.testing.assert_allclose((sums["loss"], sums["twice"]), (losses, 2 * losses), rtol=1e-6)


def test_a_term_of_another_shape_than_the_losses_is_refused(problem):
    params, batch = problem

    def wrong(model, batch, key):
        return (*loss(model, batch, key)[0], {"x": (jnp.ones((8, 1)), 0.0)}), {}

    with pytest.raises(UserError, match=r"its term 'x' has the shape \(8, 1\): give one number"):
        mean_and_gradients(wrong, ModelState(params, {}), batch, KEY, 1)


def test_losses_and_weights_of_different_shapes_are_refused():
    with pytest.raises(UserError, match="return losses and weights of one shape"):
        weighted_sum((jnp.ones((2, 3)), jnp.ones(2)))


@pytest.mark.parametrize("result", [None, jnp.ones((2, 3)), (jnp.ones((2, 3)),), (jnp.ones(()),)])
def test_one_array_without_weights_is_refused(result):
    with pytest.raises(UserError, match="loss in pipeline.py: what it returns has the shapes"):
        weighted_sum(result)


def test_each_part_has_rows_of_every_device():
    parts = split_rows(jnp.arange(8), 2)
    np.testing.assert_array_equal(parts, [[0, 2, 4, 6], [1, 3, 5, 7]])


@pytest.mark.parametrize("picks", [True, False])
@pytest.mark.parametrize("sizes", [(2, 1, 1), (2, 2, 1), (2, 2, 2)])
def test_a_loss_that_picks_elements_is_apart_where_fewer_than_two_axes_split_more(
    monkeypatch, sizes, picks
):
    def loss(model, batch, key):
        return jnp.take_along_axis(batch, jnp.zeros((2, 1), int), 1) if picks else batch.sum()

    monkeypatch.setattr(once, "free_axes", lambda: dict(zip("abc", sizes, strict=True)))
    several = sum(size > 1 for size in sizes[1:]) > 1
    apart = once._can_be_apart(loss, None, jnp.zeros((2, 3)), None, ("a",))
    assert apart == (not (picks and several))
    assert once._can_be_apart(loss, None, jnp.zeros((2, 3)), None, ())
