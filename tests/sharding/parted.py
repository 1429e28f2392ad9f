"""Loss and gradients of a model on one device, and laid out by a plan on the devices of its mesh."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from redco_plan import Plan
from redco_plan.placement import cut_to

# Without the optimisations of machine code, which take most of the compiler's time.
UNOPTIMISED = {"xla_backend_optimization_level": 0}


def values(tree: Any, ids: int, seed: int = 0) -> Any:
    """Random arrays for the ShapeDtypeStructs of a tree; integers are below `ids`."""
    leaves, treedef = jax.tree.flatten(tree)
    rng = np.random.default_rng(seed)

    def value(leaf: Any) -> np.ndarray:
        if leaf.dtype == jnp.int32:
            return rng.integers(0, ids, leaf.shape).astype(leaf.dtype)
        return (rng.normal(size=leaf.shape) / 4).astype(leaf.dtype)

    return jax.tree.unflatten(treedef, [value(leaf) for leaf in leaves])


def mesh_of(plan: Plan) -> Mesh:
    """The first devices of this machine, in the plan's mesh."""
    sizes = tuple(plan.mesh.values())
    devices = np.array(jax.devices()[: math.prod(sizes)]).reshape(sizes)
    return Mesh(devices, tuple(plan.mesh), axis_types=(AxisType.Auto,) * len(sizes))


def step(forward: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """(params, batch) -> (loss, gradients)."""
    return jax.value_and_grad(lambda params, batch: jnp.mean(forward(params, batch) ** 2))


def whole(forward: Callable[[Any, Any], Any], params: Any, batch: Any) -> Any:
    """The step on one device, lowered."""
    return jax.jit(step(forward)).lower(params, batch)


def parted(params: Any, batch: Any, plan: Plan) -> Any:
    """The step of the planned function laid out by `plan`, lowered; it takes stored parameters."""
    program = jax.jit(step(plan.forward), in_shardings=layouts(plan))
    return program.lower(jax.eval_shape(plan.store, params), batch)


def layouts(plan: Plan) -> tuple[Any, NamedSharding]:
    """(of the parameters, of the batch)."""
    mesh = mesh_of(plan)
    specs = jax.tree.map(lambda spec: NamedSharding(mesh, spec), plan.specs)
    return specs, NamedSharding(mesh, P(plan.batch_axes))


def run(program: Any, params: Any, batch: Any, plan: Plan) -> tuple[Any, Any]:
    """(loss, gradients) of a compiled program of `plan`; the padding of gradients is cut off."""
    loss, gradients = program(*jax.device_put((plan.store(params), batch), layouts(plan)))
    leaves, treedef = jax.tree.flatten(gradients)
    pairs = zip(leaves, plan.parameters, strict=True)
    return loss, jax.tree.unflatten(treedef, [cut_to(g, own.shape) for g, own in pairs])


def results(
    forward: Callable[[Any, Any], Any], params: Any, batch: Any, plan: Plan
) -> tuple[Any, Any]:
    """(loss, gradients) on one device, and the same on the plan's."""
    lowered = whole(forward, params, batch), parted(params, batch, plan)
    with ThreadPoolExecutor(2) as pool:
        one, many = pool.map(lambda program: program.compile(UNOPTIMISED), lowered)
    return one(params, batch), run(many, params, batch, plan)


def worst(found: Any, expected: Any, least: float = 0.0) -> float:
    """The largest error of an array, as a share of its largest element or of `least`; of all."""

    def share(a: Any, b: Any) -> float:
        return float(np.max(np.abs(np.asarray(a) - b)) / max(np.max(np.abs(b)), least))

    return max(map(share, jax.tree.leaves(found), jax.tree.leaves(expected)))
