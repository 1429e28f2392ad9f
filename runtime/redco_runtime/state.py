"""What a step carries to the next one, and the names of the arrays in it."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

PyTree = Any  # dicts, dataclasses or tuples, nested, whose leaves are arrays, shapes or specs


class ModelState(NamedTuple):
    """All that a model computes with.

    params: nested dict.
    variables: nested dict of what else it holds, such as running means; {} for most models.
    """

    params: PyTree
    variables: PyTree


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class TrainState:
    """All that a checkpoint holds. A new one comes from `new_state`.

    step: int32 scalar, the updates done.
    params, variables: as in ModelState.
    opt_state: that of optax.
    """

    step: jax.Array
    params: PyTree
    opt_state: PyTree
    variables: PyTree

    @property
    def model(self) -> ModelState:
        """The part that predictions are computed with."""
        return ModelState(self.params, self.variables)


def new_state(
    model: ModelState, optimizer: optax.GradientTransformation, step: int = 0
) -> TrainState:
    """Return the state of a run that starts from `model`."""
    return TrainState(
        step=jnp.asarray(step, jnp.int32),
        params=model.params,
        opt_state=optimizer.init(model.params),
        variables=model.variables,
    )


def flatten(tree: PyTree, prefix: str = "") -> dict[str, Any]:
    """Return {"params/layers/attn/q/kernel": leaf}: names that no class of a node is part of."""
    return {
        prefix + jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree.leaves_with_path(tree)
    }


def rebuild(tree: PyTree, leaves: Mapping[str, Any]) -> PyTree:
    """Return a pytree like `tree`, of `leaves`, which have the names that `flatten` gives."""
    return jax.tree.unflatten(jax.tree.structure(tree), [leaves[path] for path in flatten(tree)])


def owner(path: str, params: Container[str]) -> str:
    """Return the parameter whose path ends an array's path, or "".

    opt_state/0/mu/q/kernel -> q/kernel
    """
    words = path.split("/")
    ends = ("/".join(words[i:]) for i in range(len(words)))
    return next((end for end in ends if end in params), "")
