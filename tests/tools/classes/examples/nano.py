"""nano-moe-jax: a mixture of experts, each a module that is called in a loop."""

import numpy as np
from nano_moe.config import NanoMoEConfig


def example(width=64, heads=4, words=256, length=32, experts=4):
    config = NanoMoEConfig(
        vocab_size=words, n_layers=2, n_heads=heads, d_model=width, d_ff=4 * width,
        n_experts=experts, block_size=length,
    )  # fmt: skip
    return {"config": config}, {"x": np.zeros((1, length), np.int32)}


def large():
    return example(1024, 16, 32000, 512, 8)
