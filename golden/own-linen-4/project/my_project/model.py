# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Net, as the steps and the pipeline use it. The class is imported, not copied: edit it where it is."""

from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
from flax import nnx

from my_project.runtime.nn.user_class import import_file

CLASS_FILE = Path(__file__).parents[1] / "../net.py"


@dataclass(frozen=True)
class NetConfig:
    """Arguments of Net."""

    width: int = 64
    classes: int = 10


class NetModel(nnx.Module):
    """Net, of Flax Linen: from the inputs of a batch, by their names, to its output."""

    def __init__(self, config: NetConfig, *, rngs: nnx.Rngs):
        self.deterministic = False  # train() and eval() set it
        self.net = nnx.bridge.ToNNX(
            import_file(CLASS_FILE).Net(width=config.width, classes=config.classes), rngs=rngs
        )
        self.net.lazy_init(x=jnp.zeros((1, 32), "float32"), train=False)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.net(x=x, train=not self.deterministic, mutable=["batch_stats"])
