"""What an optimizer keeps of each parameter lies in the memory of the host, and is on a device for its own update alone."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding

from ..base.state import PyTree, TrainState, flatten, owner, rebuild
from ..layout.specs import HOST


def on_host(placed: TrainState) -> TrainState:
    """Return a state of ShapeDtypeStructs whose moments are, as they are split, in pinned memory of the hosts."""
    shapes = flatten(placed.params)

    def move(path: str, x: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        if not owner(path, shapes):
            return x
        own = NamedSharding(x.sharding.mesh, x.sharding.spec, memory_kind=HOST)
        return x.update(sharding=own)

    leaves = {path: move(path, x) for path, x in flatten(placed.opt_state).items()}
    return replace(placed, opt_state=rebuild(placed.opt_state, leaves))


def stream(rule: optax.GradientTransformation) -> optax.GradientTransformationExtraArgs:
    """Return `rule`, applied to one parameter after the other, whose moments come and go in between.

    rule: of which no parameter's update needs another's, nor theirs together, such as a common norm.
    Its state has the paths that it has without this: a checkpoint is of either.
    """
    inner = optax.with_extra_args_support(rule)

    def update(
        updates: PyTree, state: PyTree, params: PyTree, *, sound: jax.Array, **_: Any
    ) -> tuple[PyTree, PyTree]:
        """Return (updates, the state after them). sound: whether moments follow, or stay as they were."""
        grads, values, after = flatten(updates), flatten(params), flatten(state)
        owners = {path: owner(path, values) for path in after}
        before, done = after.copy(), dict[str, jax.Array]()
        for name, value in values.items():
            paths = [path for path in after if owners[path] in ("", name)]
            leaves = [before[path] for path in paths]
            # Not before the last one's update is done: all moments at once would take as much as without this.
            grads, leaves, done = jax.lax.optimization_barrier((grads, leaves, done))
            after |= jax.device_put(done, jax.memory.Space.Host)
            leaves = jax.device_put(leaves, jax.memory.Space.Device)
            part, gradient = _nested(name, value), _nested(name, grads[name])
            tree = jax.tree.structure(jax.eval_shape(inner.init, part))
            changed, new = inner.update(gradient, jax.tree.unflatten(tree, leaves), part)
            [grads[name]] = jax.tree.leaves(changed)
            done = {}
            for path, old, x in zip(paths, leaves, jax.tree.leaves(new), strict=True):
                if owners[path]:
                    done[path] = jnp.where(sound, x, old)
                else:
                    after[path] = x  # a count, which all have
        after |= jax.device_put(done, jax.memory.Space.Host)
        return rebuild(updates, grads), rebuild(state, after)

    return optax.GradientTransformationExtraArgs(inner.init, update)


def _nested(path: str, leaf: Any) -> PyTree:
    """Return nested dicts of one leaf: a rule may look at its path."""
    for word in reversed(path.split("/")):
        leaf = {word: leaf}
    return leaf
