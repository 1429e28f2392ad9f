"""Dropout by example: its share, what it depends on, and what not."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from redco_runtime.nn.attention import attention as plain_attention
from redco_runtime.nn.dropout import Dropout, attention, drop_by_example, with_keys
from redco_runtime.base.messages import UserError
from redco_runtime.step.gradients import mean_and_gradients
from redco_runtime.step.once import OnceAStep
from redco_runtime.nn.layers import over_layers
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.base.state import ModelState
from redco_runtime.step.variables import parts_of, streams

RATE, B, D, L = 0.25, 8, 16, 3


class Layer(nnx.Module):
    def __init__(self, rngs):
        self.drop = Dropout(RATE, rngs=rngs)

    def __call__(self, x_BD, w_1D):
        return x_BD + self.drop(x_BD * w_1D)


class Net(nnx.Module):
    """Layers in a loop, one after them, each of which drops."""

    def __init__(self, rngs, remat="nothing_saveable"):
        self.w_1D, self.remat = nnx.Param(jnp.linspace(0.5, 1.5, D)[None]), remat
        self.layers = nnx.split_rngs(splits=L)(nnx.vmap(Layer))(rngs)
        self.last = Layer(rngs)

    def __call__(self, x_BD):
        w_1D = self.w_1D[...]

        @over_layers(self.remat)
        def run(layer, x_BD):
            return layer(x_BD, w_1D)

        return self.last(run(self.layers, x_BD), w_1D)


def gradients(axes, micro_batches, remat="nothing_saveable"):
    """The loss and the gradients of a step with a mesh of these axes."""
    mesh = make_mesh({"data": 1, "fsdp": 1, "model": 1} | axes, jax.devices()[: axes["data"]])
    with jax.set_mesh(mesh):
        graph, params, random, _ = parts_of(lambda: Net(nnx.Rngs(0), remat))

        def loss(model, batch, key):
            net = nnx.merge(graph, model.params, streams(random, key))
            net.train()
            batch = drop_by_example(net, batch, key)
            losses_B = jnp.square(net(batch)).mean(axis=1)
            return (losses_B, jnp.ones(len(losses_B))), {}

        @jax.jit
        def step(params, batch):
            key = jax.random.key(3)
            model = ModelState(params, {}, {})
            keyed = with_keys(batch, key)
            return mean_and_gradients(loss, model, keyed, key, micro_batches, OnceAStep(("data",)))[
                :2
            ]

        params = nnx.to_pure_dict(nnx.state(Net(nnx.Rngs(0)), nnx.Param))
        rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
        batch = jax.device_put(np.ones((B, D), np.float32), rows)
        return jax.tree.map(np.asarray, step(params, batch))


def masks(x_BD, key, module=None, calls=1):
    """What a Dropout makes of the rows, at each of its calls."""
    module = module or Dropout(RATE, rngs=nnx.Rngs(0))
    drop_by_example(module, x_BD, key)
    return [np.asarray(module(x_BD)) for _ in range(calls)]


def test_its_share_is_dropped_and_the_mean_stays():
    (y_BD,) = masks(jnp.ones((400, 50)), jax.random.key(0))
    kept = (y_BD > 0).mean()
    assert abs(kept - (1 - RATE)) < 5 * (RATE * (1 - RATE) / y_BD.size) ** 0.5
    np.testing.assert_allclose(y_BD[y_BD > 0], 1 / (1 - RATE), rtol=1e-6)


def test_examples_calls_layers_and_steps_draw_each_their_own():
    ones = jnp.ones((4, 200))
    first, second = masks(ones, jax.random.key(0), calls=2)
    (other,) = masks(ones, jax.random.key(1))
    rows = [*first, *second, *other]
    assert len({row.tobytes() for row in rows}) == len(rows)
    net = Net(nnx.Rngs(0))
    drop_by_example(net, ones, jax.random.key(0))
    keys = jax.random.key_data(net.layers.drop.rngs.key[...]).reshape(-1, 2).tolist()
    keys += jax.random.key_data(net.last.drop.rngs.key[...]).tolist()
    assert len({*map(tuple, keys)}) == 4 * (L + 1)


def test_several_rows_of_an_example_draw_each_their_own_and_others_are_refused():
    module = Dropout(RATE, rngs=nnx.Rngs(0))
    drop_by_example(module, jnp.ones(4), jax.random.key(0))
    y_RD = np.asarray(module(jnp.ones((12, 100))))
    assert len({row.tobytes() for row in y_RD}) == 12
    with pytest.raises(UserError, match="dropout: 6 rows of a batch of 4"):
        module(jnp.ones((6, 100)))


def test_it_is_off_in_evaluation_and_flaxs_own_without_keys():
    module, x_BD = Dropout(RATE, rngs=nnx.Rngs(0)), jnp.ones((4, 100))
    theirs = nnx.Dropout(RATE, rngs=nnx.Rngs(0))
    np.testing.assert_array_equal(module(x_BD), theirs(x_BD))
    drop_by_example(module, x_BD, jax.random.key(0))
    module.eval()
    np.testing.assert_array_equal(module(x_BD), x_BD)


@pytest.mark.parametrize(
    ("data", "micro_batches", "remat"),
    [(1, 2, "nothing_saveable"), (1, 1, "everything_saveable"), (2, 1, "nothing_saveable")]
    + [(4, 1, "nothing_saveable"), (2, 2, "nothing_saveable"), (1, 8, "nothing_saveable")],
)
def test_mesh_micro_batches_and_remat_change_no_mask(data, micro_batches, remat):
    """The loss of all-one rows tells masks apart: another one moves it by far more than rounding."""
    plain, found = gradients({"data": 1}, 1), gradients({"data": data}, micro_batches, remat)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), found, plain)


def test_masks_are_the_same_bits_however_rows_lie():
    def all_masks(mesh):
        with jax.set_mesh(mesh):
            rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))

            @partial(jax.jit, in_shardings=rows, out_shardings=rows)
            def draw(x_BD):
                module = Dropout(RATE, rngs=nnx.Rngs(0))
                drop_by_example(module, x_BD, jax.random.key(5))
                return module(x_BD)

            return np.asarray(draw(np.ones((B, 64), np.float32)))

    one, four = ({"data": n, "fsdp": 1, "model": 1} for n in (1, 4))
    np.testing.assert_array_equal(
        all_masks(make_mesh(one, jax.devices()[:1])), all_masks(make_mesh(four, jax.devices()[:4]))
    )


def test_dropped_weights_of_attention_have_the_mean_of_all():
    *keys, other = jax.random.split(jax.random.key(0), 4)
    q, k, v = (jax.random.normal(key, (1, 6, 2, 4)) for key in keys)
    copies = 4000
    many = [jnp.repeat(x, copies, axis=0) for x in (q, k, v)]
    segments_BS = jnp.tile(jnp.array([[1, 1, 1, 2, 2, 2]]), (copies, 1))
    drop = Dropout(RATE, rngs=nnx.Rngs(0))
    options = {"causal": True, "segments_BS": segments_BS, "layout": "heads_BTNH"}
    options["bias_1NST"] = jax.random.normal(other, (1, 2, 6, 6))
    drop.eval()
    expected = plain_attention(*many, **options)
    np.testing.assert_array_equal(attention(*many, drop=drop, **options), expected)
    drop.train()
    drop_by_example(drop, many[0], jax.random.key(1))
    o_BSNH = np.asarray(attention(*many, drop=drop, **options))
    error = o_BSNH.std(axis=0) / copies**0.5
    assert (error > 0).all() and (np.abs(o_BSNH.mean(axis=0) - expected[0]) < 5 * error).all()
