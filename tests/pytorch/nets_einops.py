"""A ViT as files of papers have it: arrays are laid out by einops."""

import torch
from einops import rearrange, reduce, repeat
from einops.layers.torch import Rearrange
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        qkv = self.to_qkv(x).chunk(3, dim=-1)
        q, k, v = (rearrange(t, "b n (h d) -> b h n d", h=self.heads) for t in qkv)
        attn = (q @ k.transpose(-1, -2) * 0.1).softmax(-1)
        out = rearrange(attn @ v, "b h n d -> b n (h d)")
        return self.to_out(out)


class Dropsample(nn.Module):
    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.training:
            return x
        mask = torch.zeros((x.shape[0], 1, 1)).uniform_() > self.rate
        return x * mask / (1 - self.rate)


class NormAct(nn.BatchNorm2d):
    """A norm with an activation, as timm's."""

    def __init__(self, width: int):
        super().__init__(width, eps=1e-3)
        self.act = nn.SiLU()

    def forward(self, x):
        if self.training:
            self.num_batches_tracked.add_(1)
        x = F.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training,
            self.momentum,
            self.eps,
        )
        return self.act(x)


class Tokens(nn.Module):
    """Its argument has the name of a function; a grid is as high as the root of how many tokens there are."""

    def __init__(self, width: int, max_pool: bool, dropout: float):
        super().__init__()
        pools = [nn.MaxPool2d(2)] if max_pool else []
        self.conv = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), NormAct(width), *pools)
        self.drop = nn.Dropout(dropout)
        self.drop_path = Dropsample(dropout)

    def forward(self, x):
        grid = rearrange(x, "b (h w) c -> b c h w", h=int(x.shape[1] ** 0.5))
        x = rearrange(self.conv(grid), "b c h w -> b (h w) c")
        return self.drop_path(self.drop(x))


class Lists(nn.Module):
    """A list of parts that are there or not, of which one has a second name."""

    def __init__(self, width: int):
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.ModuleList([nn.LayerNorm(width), None]), Tokens(width, True, 0.25)]
        )
        self.first = self.layers[0][0]

    def forward(self, x):
        norm, after = self.layers[0]
        x = self.layers[1](norm(x) if after is None else after(norm(x)))
        q, k = (self.first(t) for t in x.chunk(2, dim=1))
        return q.mean(1) * k.mean(1)


class Patches(nn.Module):
    def __init__(self, dim: int = 24, patch: int = 4, heads: int = 4, classes: int = 10):
        super().__init__()
        self.to_patches = nn.Sequential(
            Rearrange("b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=patch, p2=patch),
            nn.Linear(3 * patch * patch, dim),
        )
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.positions = nn.Parameter(torch.randn(1, 17, dim))
        self.lists = Lists(dim)
        self.attend = Attention(dim, heads)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.to_patches(x)
        b, n, _ = x.shape
        pooled = self.lists(x)
        cls_tokens = repeat(self.cls_token, "1 1 d -> b 1 d", b=b)
        x = torch.cat((cls_tokens, x), dim=1)
        x = x + self.positions[:, : n + 1]
        x = self.attend(x) + x
        return self.head(reduce(x, "b n d -> b d", "mean") + pooled)
