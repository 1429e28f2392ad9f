"""States to save, and what is said of them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.base.state import ModelState, new_state

OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))


@functools.cache
def init_on(mesh):
    split, whole = NamedSharding(mesh, P("data", "model")), NamedSharding(mesh, P())

    def init(step):
        kernel = 100 * step + jnp.arange(64.0).reshape(8, 8)
        params = {"layers": {"q": {"kernel": kernel}}, "scale": jnp.ones(8, jnp.bfloat16)}
        return new_state(ModelState(params, {}), OPTIMIZER, step)

    shape = jax.eval_shape(init, jnp.int32(0))
    shardings = jax.tree.map(lambda leaf: split if leaf.ndim == 2 else whole, shape)
    return jax.jit(init, out_shardings=shardings)


def make_state(mesh, step=1):
    """A state on `mesh`, whose kernel is 100 * step + 0, 1, 2..."""
    return init_on(mesh)(np.int32(step))


def abstract(state):
    def describe(leaf):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)

    return jax.tree.map(describe, state)


def assert_same(found, expected):
    def check(a, b):
        assert a.dtype == b.dtype and a.sharding == b.sharding
        assert np.array_equal(np.asarray(a), np.asarray(b))

    jax.tree.map(check, found, expected)


def save_steps(directory, mesh, *steps, keep=3):
    with Checkpoints(directory, keep=keep) as checkpoints:
        for step in steps:
            checkpoints.save(step, make_state(mesh, step))


def largest_file(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return max(files, key=lambda path: path.stat().st_size)


def flip_byte(directory, step):
    """Damages the largest file of a checkpoint, without a change of its size."""
    file = largest_file(directory / str(step))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
