"""transformers: BERT with a head that classifies, a call with an argument that must be None."""

import numpy as np
from transformers import BertConfig


def example(width=64, heads=4, words=256, length=32):
    config = BertConfig(
        hidden_size=width, num_attention_heads=heads, intermediate_size=4 * width,
        vocab_size=words, num_hidden_layers=2, num_labels=8,
    )  # fmt: skip
    ids, mask = np.zeros((1, length), np.int32), np.ones((1, length), np.int32)
    positions = np.arange(length, dtype=np.int32)[None]
    call = {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids}
    return {"config": config}, call | {"position_ids": positions, "head_mask": None}


def large():
    return example(1024, 16, 30528, 512)
