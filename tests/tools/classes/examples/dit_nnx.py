"""avitai-artifex: a diffusion transformer in NNX."""

import numpy as np


def example(width=64, heads=4, side=16):
    arguments = {"hidden_size": width, "num_heads": heads, "img_size": side, "depth": 2}
    return arguments, {
        "x": np.zeros((1, side, side, 3), np.float32),
        "t": np.zeros((1,), np.float32),
    }


def large():
    return example(1024, 16, 32)
