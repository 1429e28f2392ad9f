"""transformers: LLaMA, gated and with fewer heads for keys and values."""

import numpy as np
from transformers import LlamaConfig


def example(width=64, heads=4, words=256, length=32):
    config = LlamaConfig(
        hidden_size=width, num_attention_heads=heads, num_key_value_heads=heads // 2,
        intermediate_size=3 * width, vocab_size=words, num_hidden_layers=2,
    )  # fmt: skip
    ids, mask = np.zeros((1, length), np.int32), np.ones((1, length), np.int32)
    positions = np.arange(length, dtype=np.int32)[None]
    return {"config": config}, {"input_ids": ids, "attention_mask": mask, "position_ids": positions}


def large():
    return example(1024, 16, 32000, 512)
