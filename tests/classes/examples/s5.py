"""long-range-models: a state space layer of complex numbers, given as a module."""

import numpy as np
from long_range_models import S4Module, S5Layer


def example(width=64, words=256, length=32):
    def layer(dim):
        return S5Layer(feature_dim=dim, state_dim=dim)

    module = S4Module(sequence_layer=layer, dim=width, depth=2)
    arguments = {"module": module, "num_tokens": words}
    return arguments, {"inputs": np.zeros((1, length), np.int32)}


def large():
    return example(1024, 32000, 512)
