"""The update rule of several models: an optimizer for each branch, and branches that follow others."""

from collections.abc import Mapping
from typing import Any

import jax
import optax

from ..base.state import PyTree


def by_branch(
    rules: Mapping[str, optax.GradientTransformation],
    targets: Mapping[str, str] | None = None,
    rate: float = 0.0,
) -> optax.GradientTransformationExtraArgs:
    """Return a rule by which each branch of the parameters has its own, with its own state and norm.

    rules: branch -> its rule, of all branches that are no targets.
    targets: branch -> the one whose moving average it is; it has no state, and its gradient is not read.
    rate: the share of the way to the other's new parameters that a target goes in a step (Polyak).
    """
    followed = targets or {}

    inner = optax.partition(rules, lambda params: {name: name for name in params})

    def learned(tree: PyTree) -> PyTree:
        return {name: part for name, part in tree.items() if name not in followed}

    def init(params: PyTree) -> PyTree:
        return inner.init(learned(params))

    def update(
        grads: PyTree, state: PyTree, params: PyTree = None, **extra: Any
    ) -> tuple[PyTree, PyTree]:
        extra = {name: learned(tree) for name, tree in extra.items()}
        updates, state = inner.update(learned(grads), state, learned(params), **extra)
        for target, source in followed.items():
            updates[target] = jax.tree.map(
                lambda old, new, change: rate * (new + change - old),
                params[target],
                params[source],
                updates[source],
            )
        return updates, state

    return optax.GradientTransformationExtraArgs(init, update)
