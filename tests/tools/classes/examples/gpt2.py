"""transformers: GPT-2, whose q, k and v are one kernel."""

import numpy as np
from transformers import GPT2Config


def example(width=64, heads=4, words=256, length=32):
    config = GPT2Config(n_embd=width, n_head=heads, n_layer=2, vocab_size=words)
    ids, mask = np.zeros((1, length), np.int32), np.ones((1, length), np.int32)
    positions = np.arange(length, dtype=np.int32)[None]
    return {"config": config}, {"input_ids": ids, "attention_mask": mask, "position_ids": positions}


def large():
    return example(1024, 16, 50304, 512)
