"""Classes of PyTorch as repositories of papers have them: what several of them share."""

import torch
from torch import nn
from torch.nn import functional as F


class Codebook(nn.Module):
    """Takes the nearest row of a table, with a straight-through gradient, as a VQ-VAE."""

    def __init__(self, rows, width, commitment):
        super().__init__()
        self.table = nn.Embedding(rows, width)
        self.table.weight.data.uniform_(-1 / rows, 1 / rows)
        self.commitment = commitment

    def forward(self, x):
        x = x.permute(0, 2, 3, 1).contiguous()
        flat = x.view(-1, x.shape[-1])
        square = (self.table.weight**2).sum(1)
        distances = (flat**2).sum(1, keepdim=True) + square - 2 * flat @ self.table.weight.t()
        nearest = distances.argmin(1).unsqueeze(1)
        chosen = torch.zeros(nearest.shape[0], len(self.table.weight), device=x.device)
        chosen.scatter_(1, nearest, 1)
        quantized = (chosen @ self.table.weight).view(x.shape)
        loss = F.mse_loss(quantized, x.detach()) + self.commitment * F.mse_loss(
            quantized.detach(), x
        )
        quantized = x + (quantized - x).detach()
        return loss, quantized.permute(0, 3, 1, 2), chosen


class Residual(nn.Module):
    """Changes its input in place, within the part whose result it is added to."""

    def __init__(self, width, inner):
        super().__init__()
        self.block = nn.Sequential(
            nn.ReLU(True), nn.Conv2d(width, inner, 3, padding=1), nn.Conv2d(inner, width, 1)
        )

    def forward(self, x):
        return x + self.block(x)


class VQVAE(nn.Module):
    def __init__(self, hidden=24, inner=8, rows=40, width=12, commitment=0.25):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, hidden, 4, 2, 1), Residual(hidden, inner))
        self.before = nn.Conv2d(hidden, width, 1)
        self.codebook = Codebook(rows, width, commitment)
        self.decoder = nn.ConvTranspose2d(width, 3, 4, 2, 1)

    def forward(self, x):
        loss, quantized, _ = self.codebook(self.before(self.encoder(x)))
        return {"recon": self.decoder(quantized), "loss": loss}


class Made(nn.Module):
    """Has a `__new__` of its own."""

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)

    def __init__(self, features, out):
        super().__init__()
        self.inner = nn.Linear(features, 3 * features)
        self.last = nn.Linear(3 * features, out)

    def forward(self, x):
        return self.last(self.inner(x))


class Padded(nn.Module):
    """Has a table with a row of padding, and two halves of one array, which have one name."""

    def __init__(self, words=50, width=16, classes=5):
        super().__init__()
        self.table = nn.Embedding(words, width, padding_idx=0)
        self.fc = Made(width, classes)
        self.silu = nn.SiLU()
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, ids):
        x = self.table(ids)
        halves = self.gate(x).chunk(2, dim=-1)
        y = halves[0] * halves[1] + halves[1]
        z = self.silu(self.gate(y)).mean(-1, keepdim=True) * self.up(y)
        return self.fc(z)


class Attends(nn.Module):
    """Reads a context."""

    def __init__(self, width):
        super().__init__()
        self.to_q, self.to_k = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, context):
        scores = self.to_q(x) @ self.to_k(context).transpose(1, 2)
        return scores.softmax(-1) @ context


class Crossed(nn.Module):
    """Has a list of lists of parts, within a part that is given numbers."""

    def __init__(self, width, depth, inner):
        super().__init__()
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(
                nn.ModuleList([Attends(width), nn.LayerNorm(width), Made(width, width)])
            )

    def forward(self, x, context):
        for attend, norm, feed in self.layers:
            x = norm(attend(x, context)) + x
            x = feed(x) + x
        return x


class Perceiver(nn.Module):
    def __init__(self, width=16, depth=3, latents=5, classes=7):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, width))
        self.crossed = Crossed(width, depth, 2 * width)
        self.head = nn.Linear(width, classes)

    def forward(self, data):
        latents = self.latents.expand(data.shape[0], -1, -1)
        return self.head(self.crossed(latents, data).mean(1))


class Waves(nn.Module):
    """Keeps tensors in functions, as NeRF's encodings do."""

    def __init__(self, width=16):
        super().__init__()
        self.waves = [lambda x, f=f: torch.sin(x * f) for f in 2.0 ** torch.linspace(0.0, 3, 4)]
        self.fc = nn.Linear(12, width)

    def forward(self, x):
        return self.fc(torch.cat([wave(x) for wave in self.waves], -1))


class Bags(nn.Module):
    """Sums rows of tables of few words."""

    def __init__(self, width=16):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(n, width, mode="sum") for n in (20, 30))

    def forward(self, ids):
        return self.bags[0](ids) * self.bags[1](ids)


class Table(nn.Module):
    """Is made of a dict."""

    def __init__(self, cfg):
        super().__init__()
        self.fc = nn.Linear(cfg["width"], cfg["classes"])

    def forward(self, x):
        return self.fc(x)
