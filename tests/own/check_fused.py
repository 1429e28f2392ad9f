"""A project that stores its kernels apart against its class as it is, on one device and on four.

    python check_fused.py PACKAGE

On one batch: initial parameters, losses with dropout, gradients, and what a step changes.
"""

import sys
from dataclasses import replace
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)

package = sys.argv[1]


def runtime(module):
    """A module of the project's own runtime."""
    return import_module(f"{package}.runtime.{module}")


put_together = runtime("layout.apart.stored").put_together
mean_and_gradients = runtime("step.gradients").mean_and_gradients
make_mesh = runtime("layout.mesh").make_mesh
cut = runtime("layout.specs").cut
ModelState = runtime("base.state").ModelState
rebuild = runtime("base.state").rebuild
streams = runtime("step.variables").streams
variables_of = runtime("step.variables").variables_of
config, model, pipeline, sharding, steps = (
    import_module(f"{package}.{name}")
    for name in ("config", "model", "pipeline", "sharding", "steps")
)
tiny = replace(config.TINY, train=replace(config.TINY.train, steps=1, batch_size=8))
batch = pipeline.collate(pipeline.examples(tiny)[0][:8])
(name,) = (name for name in vars(model) if name.endswith("Model"))
key, seed = jax.random.key(5), jax.random.key(tiny.train.seed)
plain = getattr(model, name)(tiny.model, rngs=nnx.Rngs(seed))
graph, params, random, _ = nnx.split(plain, nnx.Param, nnx.RngState, ...)
start = ModelState(nnx.to_pure_dict(params), variables_of(plain))


def loss(state, batch, key):
    """What the class itself gives, without the tables of sharding.py."""
    net = nnx.merge(graph, state.params, streams(random, key), state.variables)
    net.train()
    return pipeline.loss(net, batch, nnx.Rngs(key)), variables_of(net)


def check(found, expected):
    """Equal to the rounding of floats, by the largest element of all arrays."""
    largest = max(np.abs(np.asarray(b)).max() for b in jax.tree.leaves(expected))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-4, 1e-5 * largest)


def close_where_it_counts(found, expected, grads):
    """Adam divides by the gradient: of none, its rounding makes a whole step."""
    largest = max(np.abs(g).max() for g in jax.tree.leaves(grads))
    for a, b, g in zip(*map(jax.tree.leaves, (found, expected, grads)), strict=True):
        counts = np.abs(g) > 1e-3 * largest
        np.testing.assert_allclose(np.asarray(a)[counts], np.asarray(b)[counts], 1e-3, 1e-6)


losses, _ = jax.jit(loss)(start, batch, key)
value, grads, variables = jax.jit(mean_and_gradients, static_argnums=(0, 4))(
    loss, start, batch, jax.random.fold_in(seed, 0), 1
)
optimizer = tiny.optimizer.transform(1)
updates, _ = jax.jit(optimizer.update)(grads, optimizer.init(start.params), start.params)
after = optax.apply_updates(start.params, updates)

assert sharding.APART
for axes in (dict.fromkeys(sharding.AXES, 1), sharding.AXES):
    with jax.set_mesh(make_mesh(axes, jax.devices()[: None if -1 in axes.values() else 1])):
        built = steps.build(tiny)

        @jax.jit
        def whole(stored, built=built):
            return put_together(cut(stored, rebuild(stored, built.shapes)), sharding.APART)

        state = built.init(seed)
        check(whole(state.params), start.params)
        rows = jax.device_put(batch, built.batch)
        found = jax.jit(built.loss)(state.model, rows, key)
        check(found, losses)
        assert jax.tree.map(jnp.dtype, found) == jax.tree.map(jnp.dtype, losses)

        def stored_loss(model, *rest, built=built):
            return built.loss(model, *rest), model.variables

        _, split, _ = jax.jit(mean_and_gradients, static_argnums=(0, 4))(
            stored_loss, state.model, rows, jax.random.fold_in(seed, 0), 1
        )
        check(whole(split), grads)
        state, values = built.train(state, rows)
        check((values["loss"], state.variables), (value, variables))
        close_where_it_counts(whole(state.params), after, grads)
