"""What a step carries to the next one."""

from dataclasses import dataclass
from typing import Any

import jax


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TrainState:
    """step: int32 scalar, updates done.  params: nested dict.  opt_state: optax state."""

    step: jax.Array
    params: Any
    opt_state: Any


def flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    """{"params/layers/attn/q/kernel": leaf}: names that no class of a node is part of."""
    return {
        prefix + jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree.leaves_with_path(tree)
    }
