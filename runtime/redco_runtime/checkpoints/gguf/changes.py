"""Tensors that llama.cpp lays out otherwise than checkpoints of Hugging Face: as `conversion/` of llama.cpp has them.

A change is (name in such a checkpoint, float32 tensor, config.json) -> the tensor of the GGUF.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Config = Mapping[str, Any]
Change = Callable[[str, np.ndarray, Config], np.ndarray]
HEADS = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}


def unchanged(name: str, value: np.ndarray, config: Config) -> np.ndarray:
    """Return a tensor as it is."""
    return value


def interleaved(name: str, value: np.ndarray, config: Config) -> np.ndarray:
    """Return a tensor; of queries and keys, two features that rotate together lie side by side, not half a head apart."""
    key = HEADS.get(_layer(name))
    if key is None:
        return value
    halves = value.reshape(config[key], 2, -1, *value.shape[1:])
    return halves.swapaxes(1, 2).reshape(value.shape)


def plus_one(name: str, value: np.ndarray, config: Config) -> np.ndarray:
    """Return a tensor; the scale of a norm, which Gemma stores as what is more than 1, is whole."""
    return value + 1 if _layer(name).endswith("norm") else value


def transposed(name: str, value: np.ndarray, config: Config) -> np.ndarray:
    """Return a tensor; the kernels of GPT-2 have their outputs first."""
    return value.T if value.ndim == 2 and _layer(name).startswith("c_") else value


def parts_apart(name: str, value: np.ndarray, config: Config) -> np.ndarray:
    """Return a tensor; all queries, all keys, all values follow each other, not head by head."""
    if _layer(name) != "query_key_value":
        return value
    heads = value.reshape(config["num_attention_heads"], 3, -1, *value.shape[1:])
    return heads.swapaxes(0, 1).reshape(value.shape)


def _layer(name: str) -> str:
    return name.split(".")[-2]
