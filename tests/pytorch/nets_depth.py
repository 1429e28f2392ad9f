"""A class of PyTorch of as many layers as are asked for, of which some are like others, and what may depend on how many."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width, deviation, factor, plain, fades, lends):
        super().__init__()
        self.shift = nn.Linear(width, width) if lends else None
        self.register_buffer("fading", 1 / (1 + fades * torch.arange(width)))
        self.inner = nn.Linear(width, width)
        nn.init.normal_(self.inner.weight, std=deviation)
        self.factor, self.plain = factor, plain

    def forward(self, x, shift):
        shift = self.shift(x) if self.shift else shift
        y = self.inner(x) * self.factor * self.fading
        y = y if self.plain else torch.tanh(y)
        return x + (y if shift is None else y + shift), shift


class Deep(nn.Module):
    """`first` layers are plain, then every `turn`-th one.

    scaled: what numbers follow from: "" for none, the "count" of layers, or the "place" of each
    drawn: what deviations of weights follow from, as those
    faded: whether a buffer is of the place of each
    lends: whether the first computes what all add
    """

    def __init__(
        self,
        width=16,
        layers=12,
        first=0,
        turn=0,
        scaled="",
        drawn="",
        faded=False,
        kinds=(),
        lends=False,
    ):
        super().__init__()
        numbers = {"": lambda i: 0.5, "count": lambda i: 1 / layers, "place": lambda i: 1 / (i + 1)}
        plain = [kinds[i] == "plain" if kinds else i < first for i in range(layers)]
        plain = [x or bool(turn) and i % turn == turn - 1 for i, x in enumerate(plain)]
        self.layers = nn.ModuleList(
            Layer(
                width,
                numbers[drawn](i),
                numbers[scaled](i),
                plain[i],
                i if faded else 1,
                lends and i == 0,
            )
            for i in range(layers)
        )

    def forward(self, x):
        shift = None
        for layer in self.layers:
            x, shift = layer(x, shift)
        return x
