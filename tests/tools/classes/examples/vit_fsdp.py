"""vitax: ViT in NNX, annotated for an axis `data`, with dropout."""

import numpy as np


def example(width=64, heads=4, side=32, classes=8):
    arguments = {
        "num_classes": classes, "img_size": side, "num_layers": 2, "num_heads": heads,
        "hidden_size": width, "mlp_dim": 4 * width,
    }  # fmt: skip
    return arguments, {"x": np.zeros((1, side, side, 3), np.float32)}


def large():
    return example(1024, 16, 224, 1000)
