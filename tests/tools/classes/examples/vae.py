"""diffusers: the autoencoder of Stable Diffusion, convolutions and one head of attention."""

import numpy as np


def example(channels=(32, 32), side=16):
    arguments = {
        "block_out_channels": channels,
        "down_block_types": ("DownEncoderBlock2D",) * len(channels),
        "up_block_types": ("UpDecoderBlock2D",) * len(channels),
    }
    return arguments, {"sample": np.zeros((1, 3, side, side), np.float32)}


def large():
    return example((128, 256, 512), 256)
