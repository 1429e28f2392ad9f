"""transformers: BART, an encoder and a decoder."""

import numpy as np
from transformers import BartConfig


def example(width=64, heads=4, words=256, length=32):
    config = BartConfig(
        d_model=width, vocab_size=words, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=heads, decoder_attention_heads=heads,
        encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width,
    )  # fmt: skip
    ids, mask = np.zeros((1, length), np.int32), np.ones((1, length), np.int32)
    positions = np.arange(length, dtype=np.int32)[None]
    encoder = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
    decoder = {f"decoder_{name}": x for name, x in encoder.items()}
    return {"config": config}, encoder | decoder


def large():
    return example(1024, 16, 50304, 512)
