"""What files of PyTorch have beside layers: checkpoints, autocast, compiled methods, layers dropped whole, gates within a Sequential."""

from collections import OrderedDict

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, weight_norm
from torch.utils.checkpoint import checkpoint


def drop_path(x, rate, training):
    if rate == 0.0 or not training:
        return x
    mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(1 - rate)
    return x * mask.div_(1 - rate)


class Gates(nn.Module):
    def forward(self, x):
        x, gates = x.chunk(2, dim=-1)
        return x * F.gelu(gates)


class Layer(nn.Module):
    def __init__(self, width, rate):
        super().__init__()
        self.rate = rate
        self.net = nn.Sequential(nn.Linear(width, 4 * width), Gates(), nn.Linear(2 * width, width))

    @torch.compile(backend="eager")
    def inner(self, x):
        return self.net(x) * 2

    def forward(self, x):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            y = checkpoint(self.inner, x, use_reentrant=False)
        return x + drop_path(
            checkpoint(torch.tanh, y, use_reentrant=True), self.rate, self.training
        )


class Habits(nn.Module):
    def __init__(self, width=32, rate=0.2):
        super().__init__()
        rates = [x.item() for x in torch.linspace(0, rate, 2)]
        self.layers = nn.ModuleList(Layer(width, x) for x in rates)
        self.scale = nn.Parameter(torch.ones([]) * np.log(1 / 0.07))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x * self.scale.exp()


class Dropped(nn.Module):
    """One entry has a name beside its place, too."""

    def __init__(self, width=32, rate=0.2):
        super().__init__()
        self.last = parametrizations.weight_norm(nn.Conv2d(width, width, 3))
        parts = {"conv": nn.Conv2d(3, width, 3), "drop": nn.Dropout2d(rate), "act": nn.ReLU()}
        self.net = nn.Sequential(OrderedDict(parts | {"end": self.last}))

    def forward(self, x):
        return self.net(x).mean((2, 3)) + self.net.conv.bias + self.last.bias


class Hooked(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.fc = weight_norm(nn.Linear(width, width))

    def forward(self, x):
        return self.fc(x)


class Unruled(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        few = self.fc(x).to(torch.float8_e4m3fn)  # no rule has this dtype
        return few.to(x.dtype)


class Follows(nn.Module):
    """Keeps a copy that follows its weights: in place, or by `.data`."""

    def __init__(self, in_place, width=32):
        super().__init__()
        self.online, self.target = nn.Linear(width, width), nn.Linear(width, width)
        self.in_place = in_place

    def forward(self, x):
        with torch.no_grad():
            if self.in_place:
                self.target.weight.lerp_(self.online.weight, 0.1)
            else:
                self.target.weight.data = self.target.weight.data + 0.1 * self.online.weight.data
        return self.online(x) - self.target(x)


class Steps(nn.Module):
    """Nobody reads the last state of its cell."""

    def __init__(self, width=32):
        super().__init__()
        self.cell = nn.LSTMCell(width, width)

    def forward(self, x):
        h = c = torch.zeros_like(x)
        for _ in range(3):
            h, c = self.cell(x, (h, c))
        return h


class Kinks(nn.Module):
    """What is 1e-9 is more than nothing in float64 alone: rounding says which side of the ReLU it is on."""

    def __init__(self, width: int, classes: int):
        super().__init__()
        self.fc, self.head = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, x):
        y = self.fc(x)
        again = (x.unsqueeze(-1) * self.fc.weight.T).sum(1) + self.fc.bias
        return self.head(F.relu(y - again + 1e-9) * 1e6 + torch.where(y > again - 1e-9, y, -y))


def deep_kinks(classes=10, **sizes):
    return Kinks(**{"width": 32, "classes": classes, **sizes})


def of_transformers(width=32):
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_embd=width, n_layer=1, n_head=1))


class Anew(torch.autograd.Function):
    """Computes a part anew in its backward, as guided-diffusion has it."""

    @staticmethod
    def forward(ctx, function, count, *args):
        ctx.function, ctx.inputs, ctx.weights = function, args[:count], args[count:]
        with torch.no_grad():
            return ctx.function(*ctx.inputs)

    @staticmethod
    def backward(ctx, *gradients):
        inputs = [x.detach().requires_grad_(True) for x in ctx.inputs]
        with torch.enable_grad():
            outputs = ctx.function(*[x.view_as(x) for x in inputs])
        return (None, None, *torch.autograd.grad(outputs, [*inputs, *ctx.weights], gradients))


class Timed(nn.Module):
    def forward(self, x, steps):
        return x + steps[:, None]


class Lift(Timed):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, width)

    def forward(self, x, steps):
        return Anew.apply(self._forward, 2, x, steps, *self.parameters())

    def _forward(self, x, steps):
        return super().forward(F.group_norm(self.up(x).float(), 4), steps)


class TimedSequential(nn.Sequential, Timed):
    def forward(self, x, steps):
        for layer in self:
            x = layer(x, steps) if isinstance(layer, Timed) else layer(x)
        return x


class Denoiser(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.blocks = nn.ModuleList(
            [TimedSequential(Lift(width), nn.SiLU()), TimedSequential(nn.Linear(width, width))]
        )

    def forward(self, x):
        for block in self.blocks:
            x = block(x, x.mean(1))
        return x
