"""What a step carries to the next one."""

from __future__ import annotations

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
