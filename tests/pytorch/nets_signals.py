"""Classes of sounds and texts as repositories have them: filters that are never called, windows, transforms, a result with names."""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Heard:
    logits: torch.Tensor
    hidden: torch.Tensor | None = None
    loudness: torch.Tensor | None = None


class Filter(nn.Module):
    """A filter over places, which its owner asks for: it is never called itself."""

    def __init__(self, width, length=64):
        super().__init__()
        self.register_buffer("decay", torch.linspace(0.1, 1.0, length)[:, None], persistent=False)
        self.rates = nn.Parameter(torch.linspace(1.5, 15.0, width))
        self.net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, width))

    def at(self, length):
        return self.net(self.decay[:length]) * torch.exp(-self.decay[:length] * self.rates)


class Spectrum(nn.Module):
    def __init__(self, points=16, hop=8):
        super().__init__()
        self.points, self.hop = points, hop
        self.register_buffer("window", torch.hann_window(points))

    def forward(self, sound):
        frames = sound.unfold(-1, self.points, self.hop) * self.window
        return torch.fft.rfft(frames, n=2 * self.points, norm="ortho").abs()


class Signals(nn.Module):
    def __init__(self, width=32, classes=5):
        super().__init__()
        self.spectrum = Spectrum()
        self.up = nn.Linear(17, width)
        self.filter = Filter(width)
        self.query = nn.Parameter(torch.empty(2 * width))
        nn.init.normal_(self.query, std=1 / math.sqrt(2 * width))
        self.head = nn.Linear(2 * width, classes)
        self.head.bias.data.copy_(torch.tensor([0.0] * (classes - 1) + [1.0]))

    def forward(self, sound):
        x = self.up(self.spectrum(sound))
        x = torch.cat([x, x.logcumsumexp(-2)], -1)
        length = x.size(1)
        taps = torch.fft.rfft(self.filter.at(length), n=2 * length, dim=0)
        y = torch.fft.irfft(
            torch.fft.rfft(x[..., : x.size(-1) // 2], 2 * length, dim=1) * taps, 2 * length, dim=1
        )
        x = torch.cat([y[:, :length], x[..., x.size(-1) // 2 :]], -1)
        weights = F.softmax(x @ self.query, dim=-1)
        return Heard(self.head((weights[..., None] * x).sum(1)), loudness=x.abs().amax(1))


class Patches(nn.Module):
    """Patches of an image by two windows, one after the other; minGPT's function of parts."""

    def __init__(self, width=32, side=4):
        super().__init__()
        self.side = side
        self.parts = nn.ModuleDict(
            {"up": nn.Linear(side * side, width), "down": nn.Linear(width, 7)}
        )
        m = self.parts
        self.function = lambda x: m["down"](F.gelu(m["up"](x)))

    def forward(self, image):
        patches = image.unfold(1, self.side, self.side).unfold(2, self.side, self.side)
        return self.function(patches.flatten(3).flatten(1, 2)).mean(1)


class Uneven(nn.Module):
    """A layer of PyTorch's that no rule has, within a Sequential."""

    def __init__(self, width=8):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, width, 1), nn.AdaptiveAvgPool2d(3))

    def forward(self, image):
        return self.net(image[:, None]).flatten(1)


class Normed(nn.Module):
    """Weights over their norms, which are learned: by PyTorch's own, and by the class."""

    def __init__(self, width=24, classes=5):
        super().__init__()
        self.up = nn.utils.parametrizations.weight_norm(nn.Linear(classes, width))
        self.directions = nn.Parameter(torch.randn(width, classes) * 0.1)
        self.sizes = nn.Parameter(self.directions.norm(dim=0))

    def forward(self, x):
        return self.up(x) @ F.normalize(self.directions, dim=0) * self.sizes


DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass
class Forecast:
    """As one parser of arguments has them for all models: some are of others."""

    channels: int = 3
    width: int = 16
    heads: int = 4
    rate: float = 0.1
    experts: int = 9
    longest: int = 640


class Step(nn.Module):
    def __init__(self, settings, kernel):
        super().__init__()
        width = settings.width
        self.conv = nn.Conv1d(width, width, kernel, padding="same", padding_mode="replicate")
        self.drop = nn.Dropout(settings.rate)

    def forward(self, x):
        return x + self.drop(F.gelu(self.conv(x)))


class Steps(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = nn.ModuleList(steps)

    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return x


class Series(nn.Module):
    def __init__(self, settings):
        super().__init__()
        width = settings.width
        self.embed = nn.Conv1d(settings.channels, width, 3, padding=1, padding_mode="circular")
        self.steps = Steps([Step(settings, 3), Step(settings, 5)])
        self.head = nn.Linear(width, settings.channels)

    def forward(self, x):
        x = self.steps(self.embed(x.transpose(1, 2))).transpose(1, 2)
        places = torch.arange(x.size(1), device=DEVICE).float() / x.size(1)
        return self.head(x * torch.cos(places)[:, None].to(DEVICE))
