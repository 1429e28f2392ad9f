"""A class of PyTorch whose layers come back in one order, and a part of which is called again with another program."""

import torch
from torch import nn


class Waves(nn.Module):
    """Two waves, of which each call is asked for one."""

    def __init__(self, width):
        super().__init__()
        frequencies = torch.arange(width) / width
        self.register_buffer("slow", frequencies, persistent=False)
        self.register_buffer("fast", 100 * frequencies, persistent=False)

    def forward(self, length, kind):
        return torch.sin(torch.arange(length)[:, None] * getattr(self, kind))


class MixingLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, x, wave):
        return x + torch.tanh(self.mix(x + wave))


class PlainLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        return x + torch.relu(self.mix(x))


class InTurn(nn.Module):
    """A layer, then two by two, and one that is left."""

    def __init__(self, width=16, before=1, turns=2):
        super().__init__()
        self.waves = Waves(width)
        first = [nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(before)]
        pairs = [layer for _ in range(turns) for layer in (MixingLayer(width), PlainLayer(width))]
        self.blocks = nn.ModuleList([*first, *pairs, MixingLayer(width)])

    def forward(self, x):
        slow, fast = (self.waves(x.shape[1], kind) for kind in ("slow", "fast"))
        for i, block in enumerate(self.blocks):
            if isinstance(block, MixingLayer):
                x = block(x, fast if i + 1 == len(self.blocks) else slow)
            else:
                x = block(x)
        return x
