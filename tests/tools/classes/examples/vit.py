"""transformers: ViT."""

import numpy as np
from transformers import ViTConfig


def example(width=64, heads=4, side=32, labels=8):
    config = ViTConfig(
        hidden_size=width, num_attention_heads=heads, intermediate_size=4 * width,
        num_hidden_layers=2, image_size=side, num_labels=labels,
    )  # fmt: skip
    return {"config": config}, {"pixel_values": np.zeros((1, side, side, 3), np.float32)}


def large():
    return example(1024, 16, 224, 1000)
