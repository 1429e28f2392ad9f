"""The recipe fedavg: its gradient is federated averaging, written out."""

import jax
import numpy as np
import pytest
from flax import nnx
from recipes.pipelines import pipeline
from redco_runtime.data.example_random import example_random
from redco_runtime.step.gradients import mean_and_gradients
from redco_runtime.base.state import ModelState

fedavg = pipeline("fedavg")


class Linear(nnx.Module):
    def __init__(self):
        self.kernel = nnx.Param(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))

    def __call__(self, x_BF):
        return x_BF @ self.kernel[...]


def _clients():
    rng = np.random.default_rng(0)
    rows = [(rng.normal(size=(n, 4)).astype(np.float32), rng.integers(0, 3, n)) for n in (96, 40)]
    pairs = [(x, label.astype(np.int32)) for x, label in rows]
    return [fedavg.client(pair, example_random(0, i)) for i, pair in enumerate(pairs)]


def _steps(kernel, client):
    """What a client makes of the parameters."""
    for k in range(fedavg.LOCAL_STEPS):
        x, label, mask = (client[n][k :: fedavg.LOCAL_STEPS] for n in ("x", "label", "mask"))
        odds = np.exp(x @ kernel)
        errors = odds / odds.sum(axis=1, keepdims=True) - np.eye(3)[label]
        kernel = kernel - fedavg.LOCAL_RATE * x.T @ (errors * mask[:, None]) / max(mask.sum(), 1)
    return kernel


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_a_rate_of_one_is_the_mean_of_the_clients(micro_batches):
    clients, model = _clients(), Linear()
    graph, params = nnx.split(model)
    state = ModelState(nnx.to_pure_dict(params), {}, {})

    def loss(state, batch, key):
        return fedavg.loss(nnx.merge(graph, state.params), batch, None), {}

    batch = fedavg.collate(clients)
    value, grads, _ = mean_and_gradients(loss, state, batch, jax.random.key(0), micro_batches)
    kernel = np.asarray(model.kernel[...])
    mean = (96 * _steps(kernel, clients[0]) + 40 * _steps(kernel, clients[1])) / 136
    np.testing.assert_allclose(kernel - grads["kernel"], mean, atol=1e-5)
    losses, weights = fedavg.loss(model, batch, None)
    assert weights.tolist() == [96, 40]
    np.testing.assert_allclose(value, (losses * weights).sum() / 136, rtol=1e-5)


def test_rows_that_fill_up_do_not_count():
    rows = fedavg.collate(_clients())
    wrong = (rows["label"] + 1) % 3
    classes = np.where(rows["mask"] == 1, rows["label"], wrong)
    assert fedavg.accuracy(classes, rows) == 1.0 and fedavg.accuracy(wrong, rows) == 0.0
