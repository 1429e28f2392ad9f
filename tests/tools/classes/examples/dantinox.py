"""dantinox: a decoder with latent attention, experts in a loop, and a graph that is no pytree."""

import numpy as np
from dantinox.core.config import ModelConfig


def example(width=64, heads=4, words=256, length=32):
    config = ModelConfig(
        dim=width, n_heads=heads, num_blocks=2, vocab_size=words, max_context=length,
        attention="mla", ffn="moe", down_dim_q=width // 2, down_dim_kv=width // 2, rope_dim=16,
    )  # fmt: skip
    return {"config": config}, {"x": np.zeros((1, length), np.int32)}


def large():
    return example(1024, 16, 32000, 512)
