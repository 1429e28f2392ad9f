from types import SimpleNamespace

import jax
import jax.numpy as jnp

from redco_runtime.step.flops import training_flops

X = jax.ShapeDtypeStruct((4, 8), jnp.float32)
W = jax.ShapeDtypeStruct((8, 16), jnp.float32)
ONE = 2 * 4 * 8 * 16


def flops(loss, x, model):
    steps = SimpleNamespace(
        loss=lambda model, batch, key: loss(batch, model), state=SimpleNamespace(model=model)
    )
    return training_flops(steps, x)


def test_a_product_costs_itself_and_two_more_backward():
    assert flops(lambda x, w: x @ w, X, W) == 3 * ONE


def test_a_scan_counts_each_step_and_recomputation_counts_once():
    def loss(x, ws):
        body = jax.checkpoint(lambda x, w: (jax.nn.relu(x @ w @ w.T), None))
        return jax.lax.scan(body, x, ws)[0]

    ws = jax.ShapeDtypeStruct((5, 8, 16), jnp.float32)
    assert flops(loss, X, ws) == 3 * 5 * 2 * ONE


def test_calls_and_branches_are_looked_into():
    def loss(x, w):
        product = jax.jit(lambda: x @ w)
        return jax.lax.cond(x[0, 0] > 0, product, lambda: x[:, :4] @ w[:4])

    assert flops(loss, X, W) == 3 * ONE  # of the branches, the longest
    assert flops(lambda x, w: jax.jit(jnp.dot)(x, w), X, W) == 3 * ONE
