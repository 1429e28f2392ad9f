"""What layers attend by gives the same whether texts are whole, share a row, or are written token by token."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from redco_runtime.nn.anew import decode_anew, empty_texts
from redco_runtime.nn.attend import ToCache, ToTexts, empty_cache

LAYERS, K, H, V = 3, 2, 4, 6  # values are wider than keys


class Layer(nnx.Module):
    def __init__(self, rngs):
        self.q = nnx.Linear(16, 2 * K * V, rngs=rngs)
        self.k = nnx.Linear(16, K * V, rngs=rngs)
        self.v = nnx.Linear(16, K * H, rngs=rngs)
        self.o = nnx.Linear(2 * K * H, 16, rngs=rngs)

    def __call__(self, x, attend):
        q, k, v = (
            f(x).reshape(*x.shape[:2], -1, n) for f, n in ((self.q, V), (self.k, V), (self.v, H))
        )
        return x + self.o(attend(q, k, v).reshape(*x.shape[:2], -1))


class Net(nnx.Module):
    """One layer by itself, then a stack."""

    def __init__(self, rngs):
        self.embed = nnx.Embed(50, 16, rngs=rngs)
        self.first = Layer(rngs)
        self.layers = nnx.split_rngs(splits=LAYERS)(nnx.vmap(Layer))(rngs)

    def hidden(self, ids, segments=None):
        return self.run(ids, ToTexts(segments))

    def run(self, ids, attend):
        @attend.over_layers("everything_saveable")
        def run(layer, x, attend):
            return layer(x, attend)

        return run(self.layers, self.first(self.embed(ids), attend))


@pytest.fixture(scope="module")
def net():
    return Net(nnx.Rngs(0))


IDS = np.random.default_rng(0).integers(0, 50, (2, 9))


def test_texts_of_a_row_do_not_see_each_other(net):
    segments = jnp.asarray([[1] * 4 + [2] * 5] * 2)
    alone = [net.hidden(part) for part in (IDS[:, :4], IDS[:, 4:])]
    np.testing.assert_allclose(net.hidden(IDS, segments), jnp.concatenate(alone, 1), atol=1e-5)


@pytest.mark.parametrize("anew", [False, True])
def test_token_by_token_it_is_the_same(net, anew):
    mask = jnp.asarray([[True] * 9, [False] * 2 + [True] * 7])  # the second is padded on the left
    places = jnp.maximum(jnp.cumsum(mask, 1) - 1, 0)
    cache = empty_texts(2, 9) if anew else empty_cache(LAYERS + 1, 2, 9, (K, V), (K, H), "float32")
    outputs = []
    for start, end in ((0, 6), (6, 7), (7, 9)):
        ids, new = IDS[:, start:end], places[:, start:end]
        if anew:
            x, cache = decode_anew(net.hidden, ids, new, mask, cache, start)
        else:
            attend = ToCache(cache, start, mask)
            x = net.run(ids, attend)
            cache = attend.cache
        outputs.append(x)
    x = jnp.concatenate(outputs, 1)
    np.testing.assert_allclose(x[0], net.hidden(IDS)[0], atol=1e-5)
    np.testing.assert_allclose(x[1, 2:], net.hidden(IDS[:, 2:])[1], atol=1e-5)


def test_gradients_go_through_the_loop(net):
    grads = nnx.grad(lambda net: net.hidden(IDS).sum())(net)
    assert all(jnp.abs(x).max() > 0 for x in jax.tree.leaves(nnx.state(grads.layers.v)))
