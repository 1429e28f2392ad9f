"""Numbers that a model draws besides dropout's: of each example by its own key, as dropout is (dropout.py)."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx

from .dropout import Dropout


class Noise(Dropout):
    """Draws numbers anew at each call in training; in evaluation all are their mean."""

    def __init__(self, kind: Literal["normal", "uniform"], *, rngs: nnx.Rngs):
        super().__init__(0.5, rngs=rngs)  # any rate above 0: it draws
        self.kind, self.still = kind, 0.5 if kind == "uniform" else 0.0

    def __call__(self, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:  # type: ignore[override]
        """Return an array of `shape`, of R rows: B, or several an example. Raises UserError for other rows."""
        stream: Any = self.rngs
        if not self.drops:
            return jnp.full(shape, self.still, dtype)
        draw = getattr(jax.random, self.kind)
        if not stream.key.ndim:
            return draw(stream(), shape, dtype)
        return jax.vmap(lambda key: draw(key, shape[1:], dtype))(self.keys(shape[0]))
