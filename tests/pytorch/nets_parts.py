"""Classes of PyTorch whose parts are made, or told sizes, in ways of their own."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F


class Sizes:
    def __init__(self, width, inner, kernel):
        self.width, self.inner, self.kernel = width, inner, kernel


class Inner(nn.Module):
    """Is as wide as its config says, unless it is told otherwise; a late start of experts is."""

    def __init__(self, config, inner=None):
        super().__init__()
        self.inner = config.inner if inner is None else inner
        self.up = nn.Linear(config.width, self.inner)
        self.down = nn.Linear(self.inner, config.width)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class Places(nn.Embedding):
    """Is told no more than a shape."""

    def forward(self, shape):
        return super().forward(torch.arange(shape[1], device=self.weight.device).expand(shape))


class Mixed(nn.Module):
    """Mixes positions with those before, by weights that no layer applies."""

    def __init__(self, config):
        super().__init__()
        self.conv1d = nn.Conv1d(
            config.width,
            config.width,
            config.kernel,
            groups=config.width,
            padding=config.kernel - 1,
        )

    def forward(self, x):
        conv = self.conv1d
        mixed = F.conv1d(x.mT, conv.weight, conv.bias, padding=conv.padding, groups=conv.groups)
        mixed = mixed[..., : x.shape[1]].mT.clone()
        mixed[:, 0] = 0.25
        return mixed


class Deep(nn.Module):
    """Has a number that follows from its place by what no size says."""

    def __init__(self, width, layer_idx):
        super().__init__()
        self.rate = 0.8 - 0.6 * math.exp(-0.3 * layer_idx)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        least = torch.tensor(-0.5, dtype=x.dtype, device=x.device)
        return torch.maximum(x + self.rate * self.fc(x), least)


class Turn(nn.Module):
    """Has a program for each kind of layers, and stores nothing."""

    def __init__(self, width):
        super().__init__()
        self.slow_scale = nn.Buffer(torch.arange(width) / 100, persistent=False)
        self.fast_scale = nn.Buffer(torch.arange(width) / 10, persistent=False)

    def forward(self, x, kind):
        return x * torch.cos(getattr(self, f"{kind}_scale"))


class Parts(nn.Module):
    def __init__(self, words=48, width=32, inner=64, kernel=4):
        super().__init__()
        config = Sizes(width, inner, kernel)
        self.words = nn.Embedding(words, width)
        self.places = Places(128, width)
        self.first = Inner(config)
        self.mixed = Mixed(config)
        self.layers = nn.ModuleList(Deep(width, i) for i in range(2))
        self.second = Inner(copy.deepcopy(config), 3 * width).to(torch.get_default_dtype())
        self.turn = Turn(width)

    def forward(self, ids):
        x = self.words(ids) + self.places(ids.shape)
        x = self.mixed(self.first(x))
        for layer in self.layers:
            x = layer(x)
        return self.turn(self.second(x), "slow") + self.turn(x, "fast")[:, [-1]]


class Decay(nn.Module):
    """Goes over positions, one after the other: it keeps what it gives in a list, and in places of an array."""

    def __init__(self, width=16, pairs=4, keys=6):
        super().__init__()
        self.key_width = pairs * keys
        inner = 2 * self.key_width + 2 * width
        self.gate = nn.Linear(width, inner)
        self.up = nn.Linear(width, inner)
        self.weight = nn.Parameter(torch.randn(inner))

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        up = self.up(x)
        state = torch.zeros_like(up[:, 0])
        largest = state - 1e9
        states, most = [], torch.zeros_like(up)
        for i in range(x.shape[1]):
            state = gate[:, i] * state + up[:, i]
            largest = torch.maximum(largest, state)
            states.append(state * self.weight)
            most[:, i] = largest
        return torch.stack(states, dim=-1).mT + most, state


class Settings:
    def __init__(self, width=32, words=40, rate=1.5):
        self.width, self.words, self.rate = width, words, rate


SETTINGS = Settings()


class Padded(nn.Module):
    """Pads as its stride needs: a number that no size says, and that is another one of each."""

    def __init__(self, width, stride):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, stride)

    def forward(self, x):
        (stride,) = self.conv.stride
        return self.conv(F.pad(x, (1, {1: 3, 2: 7, 3: 4}[stride])))


class Graphs(nn.Module):
    """Is made of one object, and adds what edges bring to nodes."""

    def __init__(self, config=SETTINGS):
        super().__init__()
        inner = int(config.width * config.rate)
        self.bag = nn.EmbeddingBag(config.words, config.width, mode="mean")
        self.fc = nn.ModuleDict({"up": nn.Linear(config.width, inner), "act": nn.ReLU()})
        self.down = nn.Linear(inner, config.width)
        self.pads = nn.ModuleList(Padded(config.width, stride) for stride in (1, 2, 3))

    def forward(self, nodes, edges):
        x = self.bag(nodes.flatten(0, 1)).unflatten(0, nodes.shape[:2])
        source, target = edges[:, 0], edges[:, 1]
        rows = x.gather(1, source[..., None].expand(-1, -1, x.shape[-1]))
        x = x.scatter_add(1, target[..., None].expand_as(rows), rows)
        x = x.index_add(1, source[0, :1], rows[:, :1])
        x = self.down(self.fc.act(self.fc.up(x))).mT
        for pad in self.pads:
            x = pad(x)
        return (
            F.huber_loss(x, x.flip(-1), reduction="none")
            + F.cosine_similarity(x, x.roll(1, 1)).sum()
        )


class Channels(nn.Module):
    """Drops whole channels, and has parameters in a list and a dict."""

    def __init__(self, width=12):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)
        self.drop = nn.Dropout2d(0.25)
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(width)) for _ in range(2))
        self.named = nn.ParameterDict({"shift": nn.Parameter(torch.zeros(width))})

    def forward(self, x):
        x = self.drop(self.conv(x)).mean((2, 3))
        for scale in self.scales:
            x = torch.tanh(x * scale)
        return x + self.named["shift"]
