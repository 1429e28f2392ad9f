"""google-tunix: Qwen 3, annotated for a mesh of its own, with a cache that must be None."""

import numpy as np
from tunix.models.qwen3.model import ModelConfig


def example(width=64, heads=4, head=16, words=256, length=32):
    config = ModelConfig(
        num_layers=2, vocab_size=words, embed_dim=width, hidden_dim=3 * width, num_heads=heads,
        head_dim=head, num_kv_heads=heads // 2, rope_theta=10_000, norm_eps=1e-6,
    )  # fmt: skip
    ids, positions = np.zeros((1, length), np.int32), np.arange(length, dtype=np.int32)[None]
    mask = np.tril(np.ones((1, length, length), bool))
    call = {"input_tokens": ids, "positions": positions, "cache": None, "attention_mask": mask}
    return {"config": config}, call


def large():
    return example(1024, 16, 128, 32000, 512)
