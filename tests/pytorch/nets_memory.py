"""What `forward` keeps of a call: tables that it moves, makes anew or keeps by length, and what a later call reads."""

from functools import lru_cache

import torch
from torch import nn


def table(length, width):
    return torch.outer(torch.arange(length).float(), 1.0 / torch.arange(1, width + 1))


@lru_cache(maxsize=4)
def cached(length, width):
    return table(length, width).sin()


class Anew(nn.Module):
    """A buffer that is made anew, of another length."""

    def __init__(self, width):
        super().__init__()
        self.width = width
        self.register_buffer("angles", table(40, width), persistent=False)

    def forward(self, x):
        self.angles = table(x.shape[1], self.width)
        return x + self.angles.cos()


class Keeps(nn.Module):
    def __init__(self, vocab=50, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.anew = Anew(width)
        self.head = nn.Linear(width, vocab)
        self.register_buffer("freqs", table(40, width), persistent=False)
        self.length, self.tables, self.longest = width, {}, 0
        self.register_buffer("first", None, persistent=False)

    def forward(self, ids):
        length = ids.shape[1]
        self.freqs = self.freqs.to(ids.device)
        if length not in self.tables:
            self.tables[length] = table(length, self.length)
        if length > self.longest:
            self.longest, self.first = length, table(length, self.length)
        x = self.anew(self.embed(ids)) + self.freqs[:length] + self.tables[length]
        self.last = x * self.first[:length] + cached(length, self.length)
        return self.head(self.last.to(self.head.weight.dtype))


class Remembers(nn.Module):
    def __init__(self, vocab=50, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.hidden = None

    def forward(self, ids):
        y, self.hidden = self.lstm(self.embed(ids), self.hidden)
        return y


class Writes(nn.Module):
    def __init__(self, vocab=50, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.cache_k = torch.zeros(8, 40, width)

    def forward(self, ids):
        x = self.embed(ids)
        self.cache_k = self.cache_k.to(x)
        self.cache_k[: ids.shape[0], : ids.shape[1]] = x
        return self.cache_k[: ids.shape[0], : ids.shape[1]] * 2


class Cached(nn.Module):
    """Writes into a cache of its own where it is not trained."""

    def __init__(self, vocab=50, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.register_buffer("cache", torch.zeros(8, 40, width), persistent=False)

    def forward(self, ids):
        B, S = ids.shape
        x = self.embed(ids)
        if not self.training:
            self.cache[:B, :S] = x
            x = self.cache[:B, :S]
        return x.sin()


class Norm(nn.Module):
    """Norms by means that it keeps: in place, by what it assigns, and of what it had before."""

    def __init__(self, width, rate=0.1):
        super().__init__()
        self.rate = rate
        self.mix = nn.Linear(width, width)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("var", torch.ones(width))
        self.register_buffer("center", torch.zeros(width))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x):
        y = self.mix(x)
        shifted = y - self.center
        if self.training:
            with torch.no_grad():
                self.mean.mul_(1 - self.rate).add_(x.mean((0, 1)), alpha=self.rate)
                self.var.mul_(1 - self.rate).add_(x.var((0, 1), unbiased=False), alpha=self.rate)
                self.center = self.center * (1 - self.rate) + y.mean((0, 1)) * self.rate
                self.count += 1
        return (x - self.mean) / (self.var + 1e-5).sqrt() + shifted


class Norms(nn.Module):
    def __init__(self, vocab=50, width=32, layers=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Norm(width) for _ in range(layers))

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return x


class NormsAlways(nn.Module):
    def __init__(self, vocab=50, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.register_buffer("mean", torch.zeros(width))

    def forward(self, ids):
        x = self.embed(ids)
        with torch.no_grad():
            self.mean.lerp_(x.mean((0, 1)), 0.1)
        return x - self.mean


class Codes(nn.Module):
    """A codebook of moving averages, which begin as its codes."""

    def __init__(self, vocab=50, width=32, codes=24, decay=0.99):
        super().__init__()
        self.decay = decay
        self.embed = nn.Embedding(vocab, width)
        codebook = torch.randn(codes, width)
        self.register_buffer("codes", codebook)
        self.register_buffer("sizes", torch.zeros(codes))
        self.register_buffer("means", codebook.clone())

    def forward(self, ids):
        x = self.embed(ids)
        flat = x.flatten(0, 1)
        nearest = (flat @ self.codes.t()).argmax(1)
        chosen = nn.functional.one_hot(nearest, self.codes.shape[0]).type(flat.dtype)
        y = self.codes[nearest].view_as(x)
        if self.training:
            with torch.no_grad():
                self.sizes.mul_(self.decay).add_(chosen.sum(0), alpha=1 - self.decay)
                self.means.mul_(self.decay).add_(chosen.t() @ flat, alpha=1 - self.decay)
                self.codes.copy_(self.means / (self.sizes + 1e-3).unsqueeze(1))
        return x + (y - x).detach()
