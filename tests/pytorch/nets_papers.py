"""Classes of PyTorch as papers of other kinds of layers have them: what several of them share."""

import torch
from torch import nn
from torch.nn import functional as F


class Decay(nn.Module):
    """Begins with what it computes of its sizes, as Mamba's states; shifts its input in time, as RWKV does."""

    def __init__(self, width, states):
        super().__init__()
        steps = torch.arange(1, states + 1, dtype=torch.float32).repeat(width, 1)
        self.log = nn.Parameter(torch.log(steps))
        self.seed = nn.Parameter(torch.Tensor(1, 1, width))
        nn.init.orthogonal_(self.seed[0])
        self.shift = nn.ZeroPad2d((0, 0, 1, -1))

    def forward(self, x):
        print("what a class prints is its own")
        a, b, c = self.shift(x), self.log.exp().sum(1), x * self.seed
        return a * b + c * a


class Rotates(nn.Module):
    """Turns pairs, as complex numbers."""

    def __init__(self, width):
        super().__init__()
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.drop = nn.Dropout(0.0)

    def forward(self, x, turns):
        xq, xk = self.q(x), self.k(x)
        turned = torch.view_as_complex(xq.reshape(*xq.shape[:-1], -1, 2)) * turns
        return self.drop(torch.view_as_real(turned).flatten(2) * xk)


class Layered(nn.Module):
    """Has complex numbers in its layers, and a list of dicts of parts."""

    def __init__(self, words=30, width=16, depth=3, length=32):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        rates = 1.0 / 100 ** (torch.arange(0, width, 2).float() / width)
        angles = torch.outer(torch.arange(length).float(), rates)
        self.turns = torch.polar(torch.ones_like(angles), angles)
        self.slopes = (1 - torch.exp(torch.linspace(-3.0, -1.0, 4))).detach().cpu().tolist()
        self.register_buffer("few", torch.tensor([0.5, 0.25, 2.0]), persistent=False)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(width), "mix": Rotates(width)})
            for _ in range(depth)
        )
        self.decay = Decay(width, 5)

    def forward(self, ids, **kwargs):
        turns = self.turns[: ids.shape[1]]
        x = self.embed(ids) * self.few.sum() * self.slopes[1]
        for layer in self.layers:
            x = x + layer["mix"](layer["norm"](x), turns)
        return self.decay(x)


class Drops(nn.Module):
    """Drops a label in training alone, and begins with a table that NumPy made."""

    def __init__(self, classes=10, width=16, rate=0.1):
        super().__init__()
        self.classes, self.rate = classes, rate
        self.table = nn.Embedding(classes + 1, width)
        self.places = nn.Parameter(torch.zeros(1, width), requires_grad=False)
        self.places.data.copy_(torch.ones(1, width) * 2)

    def forward(self, label):
        if self.training:
            dropped = torch.rand(label.shape[0], device=label.device) < self.rate
            label = torch.where(dropped, self.classes, label)
        return F.silu(self.table(label) + self.places)


class Spectral(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.fc = nn.utils.parametrizations.spectral_norm(nn.Linear(width, width))

    def forward(self, x):
        return self.fc(x)


class Packs(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.lstm = nn.LSTM(width, width, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), True, False)
        return self.lstm(packed)[1][0]


class Numpy(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return self.fc(x) * x.numpy().max()


class Reads(nn.Module):
    """Reads a file, or an object, as it is made."""

    def __init__(self, args):
        super().__init__()
        self.fc = nn.Linear(args.width if not isinstance(args, str) else len(open(args).read()), 8)

    def forward(self, x):
        return self.fc(x)


class Capped(nn.Module):
    """Has a width that follows another, up to a number: the sizes that it is traced at say the one alone."""

    def __init__(self, width=64):
        super().__init__()
        inner = min(width, 70)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


class Cut(nn.Module):
    """Reads a part of what it computes, where that is wide."""

    def __init__(self, width=64):
        super().__init__()
        self.inner, self.up = min(width, 70), nn.Linear(width, width)

    def forward(self, x):
        return self.up(x)[..., : self.inner].mean(-1)
