"""The number of parameters of a size known by name."""

import math

import jax
from families.parity import emitted
from flax import nnx

from redco_new.models.find import find_model


def count(family: str, size: str) -> int:
    """Parameters of the emitted model; nothing is computed."""
    model = find_model(family, size, 1)
    module, _ = emitted(model)
    config = getattr(module, model.family.config_class)()
    build = getattr(module, model.family.model_class)
    abstract = nnx.eval_shape(lambda: build(config, rngs=nnx.Rngs(0)))
    leaves = jax.tree.leaves(nnx.to_pure_dict(nnx.split(abstract, nnx.Param, ...)[1]))
    return sum(math.prod(leaf.shape) for leaf in leaves)
