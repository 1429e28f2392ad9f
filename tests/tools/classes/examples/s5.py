"""long-range-models: a state space layer of complex numbers, in a class with a part called `module`."""

import numpy as np
from flax import linen as nn
from long_range_models import S4Module, S5Layer, SequenceModel


def layer(dim):
    return S5Layer(feature_dim=dim, state_dim=dim)


class Wrapped(nn.Module):
    width: int
    words: int

    @nn.compact
    def __call__(self, inputs):
        module = S4Module(sequence_layer=layer, dim=self.width, depth=2)
        return SequenceModel(module=module, num_tokens=self.words)(inputs=inputs)


def example(width=64, words=256, length=32):
    return {"width": width, "words": words}, {"inputs": np.zeros((1, length), np.int32)}


def large():
    return example(1024, 32000, 512)
