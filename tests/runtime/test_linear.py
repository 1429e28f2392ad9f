"""Products of linear layers, which are others on a CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AbstractDevice

from redco_runtime.nn.linear import product, with_products
from redco_runtime.layout.mesh import make_mesh

# One that XLA's fast kernels do not take.
SLOW = "lhs_contracting_dims={0}"


@pytest.fixture(autouse=True)
def _mesh():
    with jax.set_mesh(make_mesh({"data": -1})):
        yield


GRADIENTS = jax.jit(jax.grad(lambda layer, x: jnp.sum(layer(x) ** 2), argnums=(0, 1)))


@pytest.mark.parametrize(
    ("dtype", "slow", "error"), [("float32", True, 1e-5), ("bfloat16", False, 1e-1)]
)
def test_gradients_are_those_of_flax_by_the_fast_kernels(dtype, slow, error):
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 16, 64)), jnp.float32)
    plain = nnx.Linear(64, 32, dtype=dtype, rngs=nnx.Rngs(0))
    ours = with_products(nnx.Linear(64, 32, dtype=dtype, rngs=nnx.Rngs(0)))
    compiled = [GRADIENTS.lower(layer, x).compile() for layer in (plain, ours)]
    # Where both are false in float32, XLA has learnt it, and redco_runtime/nn/linear.py may go.
    assert [SLOW in one.as_text() for one in compiled] == [slow, False]
    results = [one(layer, x) for one, layer in zip(compiled, (plain, ours), strict=True)]
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(a, b, rtol=error, atol=error)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: lambda x, w: jax.jvp(f, (x, w), (w[:8] @ w.T, x.T @ x @ w)),
        lambda f: jax.vmap(jax.grad(f, argnums=(0, 1)), in_axes=(0, None)),
        lambda f: jax.grad(lambda x, w: jnp.sum(jax.grad(f, argnums=1)(x, w) ** 2), argnums=(0, 1)),
    ],
    ids=["forward", "of each row", "of a gradient"],
)
def test_every_derivative_is_that_of_jax(transform):
    x, w = (jax.random.normal(jax.random.key(i), (8, 8)) for i in range(2))

    def summed(multiply):
        return lambda x, w: jnp.sum(jnp.sin(multiply(x, w, (((x.ndim - 1,), (0,)), ((), ())))))

    ours, jaxs = (transform(summed(f))(x, w) for f in (product, jax.lax.dot_general))
    for a, b in zip(*map(jax.tree.leaves, (ours, jaxs)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_a_product_of_ones_own_stays():
    def own(*arguments, **options):
        return jax.lax.dot_general(*arguments, **options)

    layer = nnx.Linear(2, 3, dot_general=own, rngs=nnx.Rngs(0))
    assert with_products(layer).dot_general is own


@pytest.mark.parametrize("platform", ["gpu", "tpu", None])
def test_elsewhere_the_product_is_that_of_jax(platform):
    device = AbstractDevice("", num_cores=None, platform=platform) if platform else None
    arrays = jnp.zeros((4, 2)), jnp.zeros((2, 3))
    dims = ((1,), (0,)), ((), ())
    with jax.sharding.use_abstract_mesh(
        jax.sharding.get_abstract_mesh().update(abstract_device=device)
    ):
        traces = [
            str(jax.make_jaxpr(lambda x, w, f=f: f(x, w, dims))(*arrays))
            for f in (product, jax.lax.dot_general)
        ]
    assert traces[0] == traces[1]
