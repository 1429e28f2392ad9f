"""A ViT as files of papers have it: arrays are laid out by einops."""

import torch
from einops import rearrange, reduce, repeat
from einops.layers.torch import Rearrange
from torch import nn


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


class Patches(nn.Module):
    def __init__(self, dim: int = 24, patch: int = 4, heads: int = 4, classes: int = 10):
        super().__init__()
        self.to_patches = nn.Sequential(
            Rearrange("b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=patch, p2=patch),
            nn.Linear(3 * patch * patch, dim),
        )
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.positions = nn.Parameter(torch.randn(1, 17, dim))
        self.attend = Attention(dim, heads)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.to_patches(x)
        b, n, _ = x.shape
        cls_tokens = repeat(self.cls_token, "1 1 d -> b 1 d", b=b)
        x = torch.cat((cls_tokens, x), dim=1)
        x = x + self.positions[:, : n + 1]
        x = self.attend(x) + x
        return self.head(reduce(x, "b n d -> b d", "mean"))
