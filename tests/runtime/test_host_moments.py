"""Moments in the memory of the host: the same numbers, one parameter after the other."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P

from redco_runtime.base.state import ModelState, flatten, new_state
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.layout.specs import place_abstract, size_on_device, state_specs
from redco_runtime.step.guard import is_sound, take_step
from redco_runtime.step.host_moments import on_host, stream
from redco_runtime.step.optimizers import store_moments

SPECS = {"a/bias": P("fsdp"), "a/kernel": P("fsdp", None), "b": P(None, "fsdp")}
PARAMS = {"a": {"bias": jnp.ones(8), "kernel": jnp.ones((256, 128))}, "b": jnp.ones((4, 8))}
RULES = {
    "adamw": optax.scale_by_adam(0.9, 0.95),
    "adafactor": optax.chain(optax.scale_by_factored_rms(), optax.clip_by_block_rms(1.0)),
    "sgd": store_moments(optax.trace(0.9), "bfloat16"),
}


def decayed(params):
    return jax.tree_util.tree_map_with_path(lambda path, _: path[-1].key == "kernel", params)


def train(rule, steps, host):
    """The states of a run with a NaN in its second gradient, and the placed shapes of one."""
    rule = optax.chain(rule, optax.add_decayed_weights(0.1, decayed), optax.scale(-0.1))
    rule = stream(rule) if host else optax.with_extra_args_support(rule)
    with jax.set_mesh(make_mesh({"data": 1, "fsdp": 4})):
        state = jax.eval_shape(lambda: new_state(ModelState(PARAMS, {}), rule))
        placed = place_abstract(state, state_specs(state, SPECS, {}))
        placed = on_host(placed) if host else placed
        homes = jax.tree.map(lambda x: x.sharding, placed)

        def step(state, grads, norm):
            values = {"loss": norm, "grad_norm": norm}
            more = {"sound": is_sound(state, norm, norm, 0.0)} if host else {}
            updates, opt_state = rule.update(grads, state.opt_state, state.params, **more)
            changes = {
                "params": optax.apply_updates(state.params, updates),
                "opt_state": opt_state,
            }
            return take_step(state, changes, values, 0.0)[0]

        init = jax.jit(lambda: new_state(ModelState(PARAMS, {}), rule), out_shardings=homes)
        state, step = init(), jax.jit(step, donate_argnums=0, out_shardings=homes)
        for i in range(steps):
            keys = jax.random.split(jax.random.key(i), 3)
            leaves = [
                jax.random.normal(k, x.shape)
                for k, x in zip(keys, jax.tree.leaves(PARAMS), strict=True)
            ]
            grads = jax.tree.unflatten(jax.tree.structure(PARAMS), leaves)
            before, state = state, step(state, grads, jnp.nan if i == 1 else jnp.ones(()))
            assert all(x.is_deleted() for x in jax.tree.leaves(before)), "state that is donated"
        return state, placed


@pytest.mark.parametrize("name", RULES)
def test_a_run_is_the_same_wherever_its_moments_lie(name):
    (state, placed), (plain, here) = (train(RULES[name], 4, host) for host in (True, False))
    assert flatten(state).keys() == flatten(plain).keys(), "a checkpoint is of either"
    for path, x in flatten(state).items():
        np.testing.assert_allclose(*(np.float32(y) for y in (x, flatten(plain)[path])), 1e-6, 1e-6)
        of_a_parameter = path.startswith("opt_state") and path.endswith(("bias", "kernel", "b"))
        assert (x.sharding.memory_kind == "pinned_host") == of_a_parameter, path
    assert size_on_device(here) > size_on_device(placed)
    assert size_on_device(placed.opt_state) <= 8 < size_on_device(here.opt_state), "counts alone"
