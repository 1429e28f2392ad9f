"""Classes of PyTorch on sets and sounds: arrays as long as what a convolution leaves, matrices that are no layer's."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Sounds(nn.Module):
    """Has an input in capital letters, and places of what a convolution gives."""

    def __init__(self, bands=20, width=16, inside=40):
        super().__init__()
        self.conv = nn.Conv1d(bands, width, 3, stride=2)
        self.next = nn.Conv1d(width, width, 3, stride=2)
        self.register_buffer("rates", 10 ** -torch.linspace(0, 1, width))
        self.seeds = nn.Parameter(torch.empty(1, 6, width))
        self.up = nn.Parameter(torch.empty(inside, width))
        nn.init.xavier_uniform_(self.seeds)
        nn.init.kaiming_uniform_(self.up, a=math.sqrt(5))

    def forward(self, X, lengths):
        x = self.next(F.relu(self.conv(X))).transpose(1, 2)
        x = x * torch.cos(torch.arange(x.size(1))[:, None] * self.rates)
        mask = torch.arange(x.size(1)) < ((lengths[:, None] - 1) // 2 - 1) // 2
        scores = (self.seeds @ x.transpose(1, 2)).masked_fill(~mask[:, None], -1e4)
        return F.linear(scores.softmax(-1) @ x, self.up)


class Layer(nn.Module):
    """Scales what it adds to by how many layers there are, as RetNet and DeepNet do."""

    def __init__(self, width, layers):
        super().__init__()
        self.alpha = (2 * layers) ** 0.25
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x * self.alpha + self.fc(x)


class Scaled(nn.Module):
    def __init__(self, width=16, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, layers) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
