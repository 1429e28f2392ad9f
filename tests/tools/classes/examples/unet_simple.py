"""flaxdiff: a U-Net with attention at each depth."""

import numpy as np


def example(depths=(32, 64), side=16, text=32):
    arguments = {
        "emb_features": 4 * depths[0],
        "feature_depths": depths,
        "attention_configs": ({"heads": 4},) * len(depths),
        "num_res_blocks": 1,
    }
    image, time = np.zeros((1, side, side, 3), np.float32), np.zeros((1,), np.float32)
    return arguments, {"x": image, "temb": time, "textcontext": np.zeros((1, 8, text), np.float32)}


def large():
    return example((128, 256, 512), 64, 768)
