"""Classes of PyTorch as papers publish them: widths that are rounded up, gradients that stop, weights that are normed."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm


class Rounded(nn.Module):
    """Of a hidden width that is a multiple of something, and of keys and values for several heads."""

    def __init__(self, width=24, heads=4, shared=2, multiple_of=16):
        super().__init__()
        self.width, self.heads, self.shared = width // heads, heads, shared
        hidden = int(2 * 4 * width / 3)
        hidden = multiple_of * ((hidden + multiple_of - 1) // multiple_of)
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, shared * self.width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        q = self.q(x).view(x.shape[0], self.shared, self.heads // self.shared, self.width)
        k = self.k(x).view(x.shape[0], self.shared, 1, self.width)
        return self.down(F.silu(self.up(x))) * (q * k).sum((1, 2, 3))[:, None] / self.width**0.5


class Codes(nn.Module):
    """Of the nearest code, through which gradients go on, and the largest of several points."""

    def __init__(self, features=12, width=16, codes=8):
        super().__init__()
        self.up = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width))
        self.codes = nn.Embedding(codes, width)
        self.slow, self.head = nn.Linear(width, width), nn.Linear(width, features)

    def forward(self, points):
        largest = torch.max(self.up(points), dim=1)[0]
        z = torch.relu(largest) + largest
        near = ((z[:, None] - self.codes.weight) ** 2).sum(-1).argmin(1)
        q = self.codes(near)
        commit = ((q.detach() - z) ** 2).mean() + 0.25 * ((q - z.detach()) ** 2).mean()
        q = z + (q - z).detach()
        with torch.no_grad():
            target = self.slow(z) * q
        return self.head(q * target), commit


class Dilated(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.pad = dilation
        self.conv = weight_norm(nn.Conv1d(width, width, 2, dilation=dilation))

    def forward(self, x):
        return x + torch.tanh(self.conv(F.pad(x, (self.pad, 0))))


class Layers(nn.Module):
    """Of convolutions each twice as far, and of a decoder of PyTorch's that is given a mask."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.wide = nn.ModuleList(Dilated(width, 2**i) for i in range(3))
        layer = nn.TransformerDecoderLayer(width, heads, 2 * width, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 1)

    def forward(self, x):
        y = x.transpose(1, 2)
        for layer in self.wide:
            y = layer(y)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.decoder(x, y.transpose(1, 2), tgt_mask=mask)


class Waves(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(width, dtype=torch.cfloat))

    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(x) * self.weights)


class Neighbours(nn.Module):
    def __init__(self, features=8):
        super().__init__()
        self.up = nn.Linear(features, features)

    def forward(self, x, edges):
        return torch.gather(self.up(x), 1, edges[..., None].expand(-1, -1, x.shape[-1]))


class Within(nn.Module):
    """Has a width of the config that is within another one."""

    def __init__(self, width, cfg):
        super().__init__()
        self.up = nn.Linear(width, cfg["width"])
        self.down = nn.Linear(cfg["width"], width)

    def forward(self, x):
        return x + self.down(F.silu(self.up(x)))


class Configured(nn.Module):
    """Is made of dicts, one of which has another."""

    def __init__(self, cfg, head):
        super().__init__()
        self.embed = nn.Linear(12, cfg["width"])
        self.within = Within(cfg["width"], cfg["ffn"])
        self.head = nn.Linear(cfg["width"], head["width"])

    def forward(self, x):
        return self.head(self.within(self.embed(x)))
