"""What a step carries to the next one."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

import jax


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TrainState:
    """step: int32 scalar, updates done.  params: nested dict.  opt_state: optax state.

    variables: nested dict of what else the model holds, such as running means; None for most.
    """

    step: jax.Array
    params: Any
    opt_state: Any
    variables: Any = None

    @property
    def model(self) -> Any:
        """What the other steps compute with: the parameters, and the variables if there are any."""
        return self.params if self.variables is None else (self.params, self.variables)


def flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    """{"params/layers/attn/q/kernel": leaf}: names that no class of a node is part of."""
    return {
        prefix + jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree.leaves_with_path(tree)
    }


def rebuild(tree: Any, leaves: Mapping[str, Any]) -> Any:
    """A pytree as `tree` is, of `leaves`, which have the names that `flatten` gives."""
    return jax.tree.unflatten(jax.tree.structure(tree), [leaves[path] for path in flatten(tree)])


def owner(path: str, params: Container[str]) -> str:
    """The parameter whose path an array's path ends with: opt_state/0/mu/q/kernel -> q/kernel; or ""."""
    words = path.split("/")
    ends = ("/".join(words[i:]) for i in range(len(words)))
    return next((end for end in ends if end in params), "")
