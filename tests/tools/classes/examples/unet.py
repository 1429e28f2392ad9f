"""diffusers: the U-Net of Stable Diffusion, whose attention merges the heads into the batch."""

import numpy as np


def example(channels=(32, 64), side=8, text=32):
    arguments = {
        "block_out_channels": channels,
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
        "layers_per_block": 1,
        "cross_attention_dim": text,
        "attention_head_dim": 4,
    }
    sample = np.zeros((1, 4, side, side), np.float32)
    hidden = np.zeros((1, 16, text), np.float32)
    steps = np.ones((1,), np.int32)
    return arguments, {"sample": sample, "timesteps": steps, "encoder_hidden_states": hidden}


def large():
    return example((320, 640), 64, 768)
