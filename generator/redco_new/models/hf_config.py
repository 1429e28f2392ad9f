"""The functions between the two products of an MLP: transformers' names of them, and ours."""

from typing import Any

from redco_new.models.family import refuse

# transformers' name -> that of jax.nn; gelu_tanh: gelu by its approximation with tanh
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def read_activation(config: Any, key: str) -> str:
    """What `key` of a transformers config names. Raises RedcoError for one that is not known."""
    name = getattr(config, key)
    if name not in ACTIVATIONS:
        refuse(config, f"{key} is {name!r}, and redco knows {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]
