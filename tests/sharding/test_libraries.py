"""The engine plans what several libraries make, by a few lines of each: it knows none of them."""

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import pytest
from flax import linen, nnx

from redco_plan import plan_sharding

BATCH = jax.ShapeDtypeStruct((8, 128), jnp.float32)
KEY = jax.random.key(0)


def function():
    """(forward, params, path of the first product's kernel, of the second's) of a plain function."""

    def forward(params, x_BD):
        return jax.nn.gelu(x_BD @ params["up"]) @ params["down"]

    shapes = {"up": (128, 512), "down": (512, 128)}
    params = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
    return forward, params, "up", "down"


def of_nnx():
    """The same of flax.nnx."""
    make = lambda: nnx.Sequential(  # noqa: E731
        nnx.Linear(128, 512, rngs=nnx.Rngs(0)), nnx.gelu, nnx.Linear(512, 128, rngs=nnx.Rngs(0))
    )
    graph, params = nnx.split(nnx.eval_shape(make))
    forward = lambda params, x_BD: nnx.merge(graph, params)(x_BD)  # noqa: E731
    return forward, params, "layers/0/kernel", "layers/2/kernel"


def of_linen():
    """The same of flax.linen."""
    model = linen.Sequential([linen.Dense(512), linen.gelu, linen.Dense(128)])
    params = jax.eval_shape(model.init, KEY, BATCH)
    return model.apply, params, "params/layers_0/kernel", "params/layers_2/kernel"


def of_equinox():
    """The same of Equinox, whose kernels have outputs first."""
    mlp = eqx.filter_eval_shape(eqx.nn.MLP, 128, 128, 512, depth=1, key=KEY)
    params, static = eqx.partition(mlp, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    forward = lambda params, x_BD: jax.vmap(eqx.combine(params, static))(x_BD)  # noqa: E731
    return forward, params, "layers/0/weight", "layers/1/weight"


def of_haiku():
    """The same of Haiku."""
    model = hk.without_apply_rng(hk.transform(lambda x_BD: hk.nets.MLP([512, 128])(x_BD)))
    params = jax.eval_shape(model.init, KEY, BATCH)
    return model.apply, params, "mlp/~/linear_0/w", "mlp/~/linear_1/w"


@pytest.mark.parametrize("made", [function, of_nnx, of_linen, of_equinox, of_haiku])
def test_two_products_are_column_and_row_parallel(made):
    forward, params, first, second = made()
    rows = {row["path"]: row for row in plan_sharding(forward, params, BATCH, {"model": 4}).rows()}
    for path in (first, second):
        inner = rows[path]["shape"].index(512)
        assert rows[path]["spec"][inner] == "model", path
    assert rows[first]["reason"].startswith("columns") and rows[second]["reason"].startswith("rows")
