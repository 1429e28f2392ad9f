"""sbx-rl: the critics of SAC, two of them at once under vmap."""

import numpy as np


def example(width=64):
    arguments = {"net_arch": (width, width), "n_critics": 2}
    return arguments, {
        "obs": np.zeros((1, 32), np.float32),
        "action": np.zeros((1, 8), np.float32),
    }


def large():
    return example(1024)
