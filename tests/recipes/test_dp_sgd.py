"""The recipe dp-sgd: its gradient is that of Abadi et al. 2016, example by example; what batches draw."""

import jax
import numpy as np
import pytest
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P
from recipes.pipelines import pipeline
from redco_runtime.errors import UserError
from redco_runtime.gradients import mean_and_gradients
from redco_runtime.mesh import make_mesh
from redco_runtime.state import ModelState

dp = pipeline("dp-sgd")
CLIP, ROWS, EXPECTED = 0.5, 8, 4


class Linear(nnx.Module):
    def __init__(self):
        self.kernel = nnx.Param(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4))

    def __call__(self, x_BF):
        return x_BF @ self.kernel[...]


def _rows(noise):
    rng, scale = np.random.default_rng(0), ROWS / EXPECTED
    deviation = scale * noise * CLIP / np.sqrt(ROWS)
    x_BF = (rng.normal(size=(ROWS, 4)) * np.linspace(0.1, 2, ROWS)[:, None]).astype(np.float32)
    rows = [dp.example(x, i % 4, scale, CLIP, deviation) for i, x in enumerate(x_BF[:-2])]
    return rows + [dp.example(x, 0, 0.0, CLIP, deviation) for x in x_BF[-2:]]


def _gradients(noise, micro_batches, mesh, seeds=1):
    """(Losses, gradients) as training computes them on `mesh`, by seed."""
    graph, params = nnx.split(Linear())
    state, batch = ModelState(nnx.to_pure_dict(params), {}, {}), dp.collate(_rows(noise))

    def loss(state, batch, key):
        return dp.loss(nnx.merge(graph, state.params), batch, nnx.Rngs(key)), {}

    def compute(keys, state, batch):
        def of_key(key):
            return mean_and_gradients(loss, state, batch, key, micro_batches)[:2]

        return jax.lax.map(of_key, keys)

    state = jax.device_put(state, NamedSharding(mesh, P(None, "fsdp")))
    batch = jax.device_put(batch, NamedSharding(mesh, P("fsdp")))
    with jax.set_mesh(mesh):
        value, grads = jax.jit(compute)(jax.random.split(jax.random.key(0), seeds), state, batch)
    return np.asarray(value), np.asarray(grads["kernel"])


def _plain():
    """The mean over EXPECTED of clipped gradients of the examples, one by one."""
    kernel, total, value = np.asarray(Linear().kernel[...]), 0.0, 0.0
    for row in _rows(0.0)[:-2]:
        odds = np.exp(row["x"] @ kernel)
        odds /= odds.sum()
        grad = np.outer(row["x"], odds - np.eye(4)[row["label"]])
        total = total + grad * min(1, CLIP / np.linalg.norm(grad))
        value -= np.log(odds[row["label"]])
    return value / EXPECTED, total / EXPECTED


def _mesh(devices):
    return make_mesh({"data": 1, "fsdp": devices, "model": 1}, jax.devices()[:devices])


@pytest.mark.parametrize(("devices", "micro_batches"), [(1, 1), (1, 4), (4, 2)])
def test_each_example_is_clipped(devices, micro_batches):
    (value,), (grads,) = _gradients(0.0, micro_batches, _mesh(devices))
    expected_value, expected = _plain()
    np.testing.assert_allclose(value, expected_value, rtol=1e-5)
    np.testing.assert_allclose(grads, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_noise_is_added_once_a_batch(micro_batches):
    _, plain = _plain()
    noise = _gradients(3.0, micro_batches, _mesh(1), seeds=200)[1] - plain
    # 3200 numbers: their deviation is known to 1.3 %.
    np.testing.assert_allclose(noise.std(), 3.0 * CLIP / EXPECTED, rtol=0.05)
    assert abs(noise.mean()) < 0.03


def test_a_batch_draws_each_example_by_itself():
    drawn = dp.Drawn([*range(1001)], 0.1)
    batches = [drawn.order(0, 200 * step, 200 * (step + 1)) for step in range(50)]
    sizes = [(batch < 1000).sum() for batch in batches]
    assert all(len(batch) == 200 for batch in batches) and len({*sizes}) > 10
    np.testing.assert_allclose(np.mean(sizes), 100, atol=5)
    assert np.array_equal(drawn.order(0, 200, 400), batches[1])
    with pytest.raises(UserError, match="--batch-size: .* examples were drawn"):
        drawn.order(0, 0, 50)
