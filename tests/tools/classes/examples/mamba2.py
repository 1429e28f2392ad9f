"""mamba2-jax: Mamba 2, one projection to five parts of unequal sizes."""

import numpy as np
from mamba2_jax import Mamba2Config


def example(width=64, head=16, state=16, words=256, length=32):
    config = Mamba2Config(
        vocab_size=words, hidden_size=width, state_size=state, head_dim=head,
        chunk_size=length // 2, num_hidden_layers=2,
    )  # fmt: skip
    return {"cfg": config}, {"input_ids": np.zeros((1, length), np.int32)}


def large():
    return example(1024, 64, 128, 50304, 512)
