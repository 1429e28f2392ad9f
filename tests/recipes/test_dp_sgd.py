"""The recipe dp-sgd: its gradient is that of Abadi et al. 2016, example by example; what batches draw."""

import json
from argparse import Namespace
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P
from recipes.pipelines import config, pipeline
from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.loop.scoring import examples_of
from redco_runtime.base.messages import UserError
from redco_runtime.step.gradients import mean_and_gradients
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.data import privacy
from redco_runtime.data.privacy import PrivateRows
from redco_runtime.base.state import ModelState

dp = pipeline("dp-sgd")
CLIP, ROWS, EXPECTED = 0.5, 8, 4


class Linear(nnx.Module):
    def __init__(self):
        self.kernel = nnx.Param(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4))

    def __call__(self, x_BF):
        return x_BF @ self.kernel[...]


def _settings(noise=2.0, expected=EXPECTED, steps=10, delta=1e-5, epsilon=0.0, clip=CLIP):
    data = {"noise": noise, "expected_rows": expected, "delta": delta, "epsilon": epsilon}
    return SimpleNamespace(**data, clip=clip), SimpleNamespace(batch_size=200, steps=steps)


def _rows(noise):
    rng = np.random.default_rng(0)
    x_BF = (rng.normal(size=(ROWS, 4)) * np.linspace(0.1, 2, ROWS)[:, None]).astype(np.float32)
    plain = [{"x": x, "label": np.int32(i % 4)} for i, x in enumerate(x_BF[:-2])]
    data, train = _settings(noise)
    rows = PrivateRows(plain, data, SimpleNamespace(batch_size=ROWS, steps=1))
    return rows[:] + [rows[len(plain)]]


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


def _private(size=1000, shift=0, **settings):
    return PrivateRows([{"x": np.float32(i + shift)} for i in range(size)], *_settings(**settings))


def test_a_batch_draws_each_example_by_itself():
    rows = _private(expected=100)
    batches = [rows.order(0, 200 * step, 200 * (step + 1)) for step in range(50)]
    sizes = [(batch < 1000).sum() for batch in batches]
    assert all(len(batch) == 200 for batch in batches) and len({*sizes}) > 10
    np.testing.assert_allclose(np.mean(sizes), 100, atol=5)
    assert np.array_equal(rows.order(0, 200, 400), batches[1])
    with pytest.raises(UserError, match="--batch-size: .* examples were drawn"):
        rows.order(0, 0, 50)
    full = (rows.order(0, 0, 200) < 1000).sum()
    assert (rows.order(0, 0, full) < 1000).all()


def _composed(*stretches, delta=1e-5):
    """Epsilon by dp-accounting, of (noise, rate, steps)."""
    import dp_accounting as dp

    events = [
        dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), steps)
        for noise, rate, steps in stretches
    ]
    accountant = dp.rdp.RdpAccountant().compose(dp.ComposedDpEvent(events))
    return accountant.get_epsilon(delta)


def test_epsilon_is_that_of_all_stretches_and_not_of_the_last_noise():
    first = _private(noise=0.3, steps=4, expected=100)
    first.resume(0, None)
    assert (
        first.epsilon() == pytest.approx(_composed((0.3, 0.1, 4)), abs=1e-3)
        and first.epsilon() > 20
    )
    then = _private(noise=20.0, steps=5, expected=50)
    saved = json.loads(json.dumps(first.history(4)))
    then.resume(4, saved)
    assert then.epsilon() == pytest.approx(_composed((0.3, 0.1, 4), (20, 0.05, 1)), abs=1e-3)
    # A run that starts from it brings that with it, whatever its own examples.
    other = _private(shift=1, noise=20.0, steps=1, expected=50)
    other.resume(0, saved)
    assert other.epsilon() == pytest.approx(then.epsilon(), abs=1e-3)


@pytest.mark.parametrize(
    ("stretches", "opacus"),  # by its RDPAccountant 1.6, delta 1e-5
    [
        ([(2.0, 160 / 1439, 200)], 4.138820),
        ([(0.3, 0.1, 4), (20.0, 0.05, 1)], 29.475196),
        ([(1.1, 256 / 60000, 3000)], 1.200938),
        ([(4.0, 0.05, 1000)], 1.729401),
    ],
)
def test_epsilon_is_that_of_opacus_and_nothing_is_said_beside(stretches, opacus, caplog):
    privacy._epsilon.cache_clear()
    assert privacy._epsilon(tuple(stretches), 1e-5) == pytest.approx(opacus, rel=1e-3)
    assert not caplog.records


def test_what_is_evaluated_has_spent_what_its_run_has():
    """A run of noise 0.3, then 20: evaluate.py said the epsilon of the latter alone."""
    settings = {"noise": 20.0, "expected_rows": 100, "delta": 1e-5, "epsilon": 0.0, "clip": 1.0}
    own = config({**settings, "held_out": 0.2}, {})
    own.train.batch_size, own.train.steps = 200, 5
    spent = dp.private(own)[0].history(0)[privacy.HISTORY]
    stretch = {"noise": 0.3, "clip": 1.0, "rate": 0.1, "steps": 4}
    saved = {privacy.HISTORY: spent | {"stretches": [stretch]}}
    args = Namespace(data=None, rows=0)
    held_out = examples_of(args, dp, own, SimpleNamespace(history=lambda: saved))
    scores = dp.evaluate(own, np.zeros(len(held_out), np.int32), [*held_out])
    assert scores["epsilon"] == pytest.approx(_composed((0.3, 0.1, 4)), abs=1e-3)


def test_the_best_checkpoint_has_the_history_of_its_run(tmp_path):
    saved = {privacy.HISTORY: {"stretches": []}}
    state = {"params": {"x": np.zeros(2, np.float32)}}
    with Checkpoints(tmp_path / "checkpoints") as checkpoints:
        checkpoints.save(4, state, saved)
    assert Checkpoints(tmp_path / "checkpoints-best/accuracy").history() == saved
    assert Checkpoints(tmp_path / "checkpoints").history() == saved


@pytest.mark.parametrize("step", [4, 9])
def test_a_run_that_goes_on_has_the_history_of_one(step):
    whole, again = (_private(steps=10, expected=100) for _ in range(2))
    again.resume(step, whole.history(step))
    assert again.history(10) == whole.history(10)


@pytest.mark.parametrize("position", [None, {}, {"epoch": 1}])
def test_what_has_no_history_or_other_data_is_refused(position):
    with pytest.raises(UserError, match="--workdir: its checkpoint has no history of privacy"):
        _private().resume(4, position)
    with pytest.raises(UserError, match="--workdir: the examples are others"):
        _private().resume(4, _private(shift=1).history(4))


def test_noise_is_worked_out_for_an_epsilon():
    rows = _private(epsilon=8.0, expected=100, steps=50)
    assert 7.99 < rows.epsilon() <= 8
    again = _private(epsilon=8.0, expected=100, steps=50)
    again.resume(20, rows.history(20))
    assert again.noise == rows.noise  # bit-identical
    spent = _private(noise=0.3, expected=100, steps=4)
    more = _private(epsilon=60.0, expected=100, steps=50)
    more.resume(4, spent.history(4))
    assert 59.9 < more.epsilon() <= 60 and more.epsilon() == pytest.approx(
        _composed((0.3, 0.1, 4), (more.noise, 0.1, 46)), abs=1e-3
    )
    with pytest.raises(UserError, match="--epsilon: 8 in the end is not to be had: .* is spent"):
        _private(epsilon=8.0, expected=100).resume(4, spent.history(4))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"expected": 150, "size": 100},
            "--expected-rows: 150 of a batch .* there are 100 examples",
        ),
        ({"expected": 300}, "--expected-rows: 300 of a batch .* --batch-size 200"),
        ({"delta": 0.5}, "--delta: 0.5 is not above 0 and below 1 / 1000"),
        ({"delta": 0.001}, "--delta: 0.001 is not above 0 and below 1 / 1000"),
        ({"delta": 0.0}, "--delta: 0.0 is not above 0 and below 1 / 1000"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(settings, message):
    with pytest.raises(UserError, match=message):
        _private(**settings)
