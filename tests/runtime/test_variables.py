"""What a model holds besides its parameters: carried through micro-batches, random streams anew."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from redco_runtime.layout.mesh import split_rows
from redco_runtime.step.gradients import mean_and_gradients
from redco_runtime.base.state import ModelState
from redco_runtime.step.variables import streams, variables_of


class Model(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(3, 4, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.other = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        x = self.norm(self.linear(x))
        self.normed = nnx.Intermediate(x)
        return self.dropout(x), self.other(x)


@pytest.fixture(scope="module")
def model():
    return Model(nnx.Rngs(0))


@pytest.fixture(scope="module")
def batch():
    return {"x": np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)}


@pytest.fixture(scope="module")
def parts(model):
    return nnx.split(model, nnx.Param, nnx.RngState, ...)


def merged(parts, params, variables, _, key):
    graph, _, random, _ = parts
    return nnx.merge(graph, params, streams(random, key), variables)


@pytest.fixture(scope="module")
def loss(parts):
    def loss(model, batch, key):
        model = merged(parts, *model, key)
        model.train()
        losses = jnp.square(model(batch["x"])[0])
        return (losses, jnp.ones_like(losses)), variables_of(model)

    return loss


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_variables_go_from_one_micro_batch_to_the_next(model, parts, loss, batch, micro_batches):
    params, variables = nnx.to_pure_dict(parts[1]), variables_of(model)
    key = jax.random.key(3)
    value, grads, found = mean_and_gradients(
        loss, ModelState(params, variables), batch, key, micro_batches
    )
    expected, sums = variables, []
    rows = jax.tree.map(lambda x: split_rows(x, micro_batches), batch)
    for i, each in enumerate(jax.random.split(key, micro_batches)):
        part = jax.tree.map(lambda x, i=i: x[i], rows)
        (losses, _), expected = loss(ModelState(params, expected), part, each)
        sums.append(losses.mean())
    np.testing.assert_allclose(value, np.mean(sums), rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, expected)
    assert abs(found["norm"]["mean"]).max() > 0
    assert jax.tree.structure(found) == jax.tree.structure(variables)  # without what is sown
    assert jax.tree.structure(grads) == jax.tree.structure(params)


def masks(parts, model, key):
    model = merged(parts, nnx.to_pure_dict(parts[1]), variables_of(model), {}, key)
    model.train()
    return [np.asarray(x == 0) for x in model(np.ones((64, 3), np.float32))]


def test_streams_follow_from_the_key_and_differ(parts, model):
    one, again, other = (masks(parts, model, jax.random.key(k)) for k in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one[0] != other[0]).any()
    assert (one[0] != one[1]).any()


def test_streams_are_none_of_the_keys_that_rngs_of_it_give(parts):
    key = jax.random.key(5)
    rngs = nnx.Rngs(key)
    given = [jax.random.key_data(rngs()) for _ in range(20)]
    found = [
        jax.random.key_data(leaf)
        for leaf in jax.tree.leaves(streams(parts[2], key))
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    ]
    assert found
    assert not any(np.array_equal(a, b) for a in given for b in found)


def test_split_streams_keep_their_shape():
    class Two(nnx.Module):
        def __init__(self):
            self.rngs = nnx.Rngs(noise=0).split(2)

    found = streams(nnx.state(Two(), nnx.RngState), jax.random.key(0))["rngs"]["noise"]
    assert len(np.unique(jax.random.key_data(found["key"]), axis=0)) == 2
    np.testing.assert_array_equal(found["count"], [0, 0])


def test_a_model_without_more_has_no_variables_and_no_streams():
    model = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    assert variables_of(model) == {}
    assert streams(nnx.state(model, nnx.RngState), jax.random.key(0)) == {}


def test_a_draw_does_not_ask_a_tracer_for_what_it_lacks(monkeypatch):
    """To refuse its sharding, JAX walks all that was traced before: a class of 1,000 arrays took 29 s, not 4."""
    monkeypatch.setattr(jax.core.Tracer, "sharding", property(lambda self: pytest.fail("asked")))

    def draw(key):
        model = Model(nnx.Rngs(key))
        return model(jnp.ones((2, 3))), nnx.to_pure_dict(nnx.state(model))

    key = jax.random.key(5)
    traced, apart = jax.jit(draw)(key), draw(key)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(_bits(a), _bits(b), 1e-6), traced, apart)


def _bits(x):
    is_key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(x) if is_key else x
