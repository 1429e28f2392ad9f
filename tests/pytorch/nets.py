"""Classes of PyTorch, as users write them."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class MLP(nn.Module):
    def __init__(self, features=784, width=256, classes=10):
        super().__init__()
        self.fc1 = nn.Linear(features, width)
        self.fc2 = nn.Linear(width, classes)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        return self.fc2(h)


class Block(nn.Module):
    def __init__(self, c_in, c_out, drop=0.1):
        super().__init__()
        self.conv = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.bn = nn.BatchNorm2d(c_out)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        return self.drop(F.relu(self.bn(self.conv(x))))


class CNN(nn.Module):
    def __init__(self, width=8, classes=7, p=0.1):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(p),
        )
        self.block1 = Block(width, width, p)
        self.block2 = Block(width, 2 * width)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x):
        h = self.stem(x)
        h = self.block2(self.block1(h))
        h = F.dropout(h, 0.3, self.training)
        h = h.mean((2, 3))
        return self.head(h)


class Holder(nn.Module):
    """Holds a table, and is never called itself."""

    def __init__(self, words, dim):
        super().__init__()
        self.table = nn.Embedding(words, dim)


class Head(nn.Module):
    """Has the weight of a table that it does not hold."""

    def __init__(self, table):
        super().__init__()
        self.out = nn.Linear(table.embedding_dim, table.num_embeddings, bias=False)
        self.out.weight = table.weight

    def forward(self, x):
        return self.out(x)


class Bag(nn.Module):
    def __init__(self, words=1000, dim=64):
        super().__init__()
        self.model = Holder(words, dim)
        self.norm = nn.RMSNorm(dim)
        self.register_buffer("scale", torch.tensor(dim**0.5), persistent=False)
        self.head = Head(self.model.table)

    def forward(self, ids):
        B, S = ids.shape
        x = self.model.table(ids) * self.scale
        x = x + torch.arange(S, device=ids.device)[None, :, None] / S
        x = torch.concat([x, x[:, :1]], dim=1).mean(1)
        x = F.rms_norm(self.norm(x), self.norm.normalized_shape)
        return self.head(x)


class Island(nn.Module):
    """Computes a part in float32, whatever it is made in."""

    def __init__(self, width=64):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        h = self.fc(x).float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        h = h * self.scale.float()
        return h.to(x.dtype) + self.shift


class Distances(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return torch.cdist(self.fc(x), x)


class NormsItself(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("var", torch.ones(width))
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return F.batch_norm(self.fc(x), self.mean, self.var, training=self.training)


class Branches(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        h = self.fc(x)
        if h.sum() > 0:
            h = h * 2
        return h


class Unfaithful(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


class OwnBackward(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return Unfaithful.apply(self.fc(x))


class Attn(nn.Module):
    def __init__(self, dim, heads, drop):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.drop = drop

    def forward(self, x):
        B, S, D = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(B, S, self.heads, self.head_dim).transpose(1, 2)
        k = k.view(B, S, self.heads, self.head_dim).transpose(1, 2)
        v = v.view(B, S, self.heads, self.head_dim).transpose(1, 2)
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=self.drop if self.training else 0.0
        )
        y = y.transpose(1, 2).contiguous().view(B, S, D)
        return self.proj(y)


class Hand(Attn):
    def __init__(self, dim, heads, drop):
        super().__init__(dim, heads, drop)
        self.register_buffer(
            "mask", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64), persistent=False
        )

    def forward(self, x):
        B, S, D = x.shape
        q, k, v = self.qkv(x).split(D, dim=2)
        q = q.view(B, S, self.heads, D // self.heads).transpose(1, 2)
        k = k.view(B, S, self.heads, D // self.heads).transpose(1, 2)
        v = v.view(B, S, self.heads, D // self.heads).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :S, :S] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        att = F.dropout(att, self.drop, self.training)
        y = (att @ v).transpose(1, 2).contiguous().view(B, S, D)
        return self.proj(y)


class Layer(nn.Module):
    def __init__(self, dim, heads, drop, kind):
        super().__init__()
        self.ln_1 = nn.LayerNorm(dim)
        self.attn = {"sdpa": Attn, "hand": Hand}[kind](dim, heads, drop)
        self.ln_2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), nn.Dropout(drop)
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class GPT(nn.Module):
    def __init__(self, vocab=1000, dim=64, heads=4, layers=3, length=64, drop=0.1, kind="sdpa"):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.wpe = nn.Embedding(length, dim)
        self.blocks = nn.ModuleList([Layer(dim, heads, drop, kind) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids):
        B, S = ids.shape
        pos = torch.arange(S, device=ids.device)
        x = self.wte(ids) + self.wpe(pos)
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class SharedWeight(nn.Module):
    """A head with the weight of a table, and a bias of its own; places that are not trained."""

    def __init__(self, words=40, width=24, length=16):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.randn(length, width), requires_grad=False)
        self.head = nn.Linear(width, words)
        self.head.weight = self.table.weight

    def forward(self, ids):
        x = self.table(ids) + self.places[: ids.shape[1]]
        return self.head(torch.min(x, x.square()))


class Recurrences(nn.Module):
    """Runs over a text from both ends, then over what that gives."""

    def __init__(self, words=100, width=16, layers=2, classes=5):
        super().__init__()
        self.emb = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, layers, dropout=0.2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(2 * width, width)
        self.fc = nn.Linear(width, classes)

    def forward(self, ids):
        outputs, (_, cells) = self.lstm(self.emb(ids))
        _, last = self.gru(outputs.transpose(0, 1), cells[:1])
        return self.fc(last[-1]), None


class DropPath(nn.Module):
    """Drops whole examples in training."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.training:
            return x
        kept = 1 - self.rate
        drawn = torch.rand((x.shape[0], 1, 1, 1), dtype=x.dtype, device=x.device)
        return x.div(kept) * (kept + drawn).floor_()


class Images(nn.Module):
    """Goes down, and up again by each way that there is."""

    def __init__(self, width=8):
        super().__init__()
        self.a = nn.Conv2d(3, width, 3)
        self.norm = nn.InstanceNorm2d(width, affine=True)
        self.down = nn.Conv2d(width, 2 * width, 2, 2)
        self.up = nn.ConvTranspose2d(2 * width, width, 3, 2, 1, output_padding=1)
        self.b = nn.Conv2d(width, 4, 1)
        self.scale = nn.Parameter(torch.zeros(1, 4, 1, 1))
        self.drop_path = DropPath(0.25)
        self.rows = nn.Sequential(nn.Flatten(2), nn.Tanh())

    def forward(self, x):
        x = F.pad(x, (1, 1, 1, 1), mode="reflect")
        x = F.elu(self.norm(self.a(x)), 0.5)
        x = self.up(self.down(x)) + F.interpolate(self.down(x)[:, ::2], scale_factor=2)
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
        x = x + F.interpolate(x, scale_factor=1, mode="bicubic")
        for pool in (F.max_pool2d, F.avg_pool2d):
            x = x + pool(x[:, :, 1:], 2, ceil_mode=True).mean((2, 3), keepdim=True)
        x = x + F.interpolate(self.down(x)[:, :8], x.shape[2:], mode="bicubic", antialias=True)
        x = self.b(x)
        x = F.group_norm(x + self.drop_path(x), 1)
        x = x + self.scale * torch.linalg.vector_norm(x, dim=(2, 3), keepdim=True) * x
        return F.pixel_shuffle(x, 2), self.rows(x)


class Clones(nn.Module):
    """A language model of PyTorch's own layers, which are copies of one, and of a table that is no buffer."""

    def __init__(self, words=200, width=32, heads=4, hidden=64, layers=2, places=64):
        super().__init__()
        self.parts = nn.ModuleDict({"words": nn.Embedding(words, width)})
        steps = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        angles = torch.outer(torch.arange(places).float(), steps)
        self.turns = torch.polar(torch.ones_like(angles), angles)
        layer = nn.TransformerEncoderLayer(width, heads, hidden, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, words)

    def forward(self, ids):
        x = self.parts["words"](ids)
        pairs = torch.view_as_complex(x.reshape(*x.shape[:2], -1, 2))
        x = torch.view_as_real(pairs * self.turns[: ids.shape[1]]).flatten(2)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.encoder(x, mask, is_causal=True))


class Steps(nn.Module):
    """Is another program for each length of what it reads."""

    def __init__(self, width=8):
        super().__init__()
        self.cell = nn.GRUCell(width, width)

    def forward(self, x):
        assert x.shape[1] < 9
        h = x.new_zeros(x.shape[0], x.shape[2])
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return h


class Blurs(nn.Module):
    """Adds noise to what it reads, and drops whole rows in training."""

    def __init__(self, width=8):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        h = self.fc(x)
        h = h + torch.randn_like(h) * h.abs()
        if self.training:
            h = h * (torch.rand(h.shape[0], 1) + 0.5).floor()
        return h


class Places(nn.Embedding):
    """A table of positions, which is given sizes alone."""

    def forward(self, shape):
        return super().forward(torch.arange(shape[1], device=self.weight.device).expand(shape) + 2)


class Inner(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, x):
        return self.second(x)


class Apart(nn.Module):
    """Calls a part of its part apart, as encoder-decoders do."""

    def __init__(self, words=40, width=24, longest=50):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.places = Places(longest, width)
        self.inner = Inner(width)

    def forward(self, ids):
        x = self.inner.first(self.table(ids) + self.places(ids.shape))
        return self.inner(torch.relu(x))
