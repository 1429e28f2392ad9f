"""What holds for the layout of every model of the zoo."""

import functools
import math
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from sharding.models import ZOO
from sharding.parted import results, values
from sharding.zoo import V, shapes
from sharding.zoo_control import OPAQUE

from redco_plan import plan_sharding
from redco_plan.placement import axes_of_entry

MESH = {"data": 1, "fsdp": 1, "model": 4}


@functools.cache
def plan_of(name):
    return plan_sharding(*ZOO[name], MESH)


@pytest.mark.parametrize("name", ZOO)
def test_every_primitive_has_a_rule(name):
    assert plan_of(name).warnings == ()


@pytest.mark.parametrize("name", ZOO)
def test_every_primitive_of_the_gradient_has_a_rule(name):
    forward, params, batch = ZOO[name]

    def step(params, batch):
        grads = jax.grad(lambda params: jnp.mean(forward(params, batch) ** 2))(params)
        return jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)

    assert plan_sharding(step, params, batch, MESH).warnings == ()


def test_a_kernel_of_the_users_is_named_and_the_rest_is_laid_out():
    plan = plan_sharding(*OPAQUE, MESH)
    (warning,) = plan.warnings
    assert "pallas_call (zoo_control.py:" in warning
    assert plan.dims == {"i": ("inner", "inner"), "o": ("mlp", "inner")}


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("sizes", [(2, 2), (4, 1), (2, 6), (1, 8)])
def test_every_parameter_has_one_spec_whose_sizes_divide(name, sizes):
    mesh = dict(zip(("fsdp", "model"), sizes, strict=True))
    plan = plan_sharding(*ZOO[name], mesh)
    paths = [row["path"] for row in plan.rows()]
    assert len(paths) == len(set(paths)) == len(jax.tree.leaves(ZOO[name][1]))
    for row in plan.rows():
        axes = [axis for entry in row["spec"] for axis in axes_of_entry(entry)]
        assert len(row["spec"]) == len(row["shape"]) == len(row["dims"])
        assert len(axes) == len(set(axes))
        assert math.prod(row["shape"]) == math.prod(row["shard_shape"]) * math.prod(
            mesh[axis] for axis in axes
        )
        assert all(row["dims"])
        assert row["reason"]


def renamed(tree, names):
    """`tree` with other names for its keys; `names` gives new -> (old, the same of the child)."""
    if isinstance(tree, list):
        return [renamed(child, names.setdefault(i, {})) for i, child in enumerate(tree)]
    if not isinstance(tree, dict):
        return tree
    made = {}
    for old, child in tree.items():
        new, below = f"p{random.randrange(10**9)}", {}
        made[new] = renamed(child, below)
        names[new] = (old, below)
    return made


def restored(tree, names):
    """What `renamed` was given."""
    if isinstance(tree, list):
        return [restored(child, names[i]) for i, child in enumerate(tree)]
    if not isinstance(tree, dict):
        return tree
    return {names[new][0]: restored(child, names[new][1]) for new, child in tree.items()}


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("seed", range(2))
def test_names_change_nothing(name, seed):
    forward, params, batch = ZOO[name]
    random.seed(f"{name} {seed}")
    names = {}
    other = renamed(params, names)
    plan = plan_sharding(lambda p, b: forward(restored(p, names), b), other, batch, MESH)
    expected = plan_of(name)
    assert restored(plan.specs, names) == expected.specs
    assert restored(plan.dims, names) == expected.dims


@pytest.mark.parametrize("first", ["left", "right"])
def test_of_dims_that_cost_as_much_the_program_decides_and_no_name(first):
    """Though the program begins with all parameters in the order of their names."""
    names = [first, *{"left", "right"} - {first}]

    def forward(params, x_B):
        of_dim = jax.tree.map(lambda x: x.astype("bfloat16"), params)
        x_BI, x_BJ = (x_B[:, None] * of_dim[name] for name in names)
        return x_BI[:, :, None] * x_BJ[:, None] * of_dim["w"]

    params = shapes(w=(8, 8), left=(8,), right=(8,))
    plan = plan_sharding(forward, params, shapes(x=(16,))["x"], {"model": 4})
    assert plan.specs["w"] == P("fsdp", "model")


# One of each kind at once, the others with the slow tests.
QUICK = ("branches", "convnet", "llama", "moe_capacity", "recurrent", "vit")
assert set(QUICK) <= set(ZOO)
CASES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ZOO]


@pytest.mark.parametrize("name", CASES)
def test_sharded_equals_unsharded(name):
    """Loss and gradients, on (fsdp 2, model 2) or on (model 4), by turns."""
    forward, params, batch = ZOO[name]
    mesh = (1, 2, 2) if list(ZOO).index(name) % 2 else (1, 1, 4)
    sizes = dict(zip(MESH, mesh, strict=True))
    plan = plan_sharding(forward, params, batch, sizes)
    expected, found = results(forward, values(params, V), values(batch, V, 1), plan)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-5), found, expected)
