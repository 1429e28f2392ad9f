"""flaxdiff: a diffusion transformer in Linen, modulated by six parts of one kernel."""

import numpy as np


def example(width=64, heads=4, side=32):
    arguments = {"emb_features": width, "num_heads": heads, "num_layers": 2, "patch_size": 4}
    image, time = np.zeros((1, side, side, 3), np.float32), np.zeros((1,), np.float32)
    return arguments, {"x": image, "temb": time, "textcontext": np.zeros((1, 8, 32), np.float32)}


def large():
    return example(1024, 16, 64)
