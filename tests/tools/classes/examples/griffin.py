"""recurrentgemma: Griffin, gated linear recurrences and local attention."""

import numpy as np
from recurrentgemma.common import GriffinConfig, TemporalBlockType


def example(width=64, heads=4, words=256, length=32):
    config = GriffinConfig(
        vocab_size=words, width=width, mlp_expanded_width=3 * width, num_heads=heads,
        block_types=(TemporalBlockType.RECURRENT, TemporalBlockType.ATTENTION),
        embeddings_scale_by_sqrt_dim=True, attention_window_size=16, logits_soft_cap=30.0,
    )  # fmt: skip
    ids, positions = np.zeros((1, length), np.int32), np.arange(length, dtype=np.int32)[None]
    return {"config": config}, {"tokens": ids, "segment_pos": positions}


def large():
    return example(2048, 16, 32000, 512)
