"""Classes of PyTorch, as users write them."""

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


class Bag(nn.Module):
    def __init__(self, words=1000, dim=64, classes=4):
        super().__init__()
        self.table = nn.Embedding(words, dim)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, classes, bias=False)

    def forward(self, ids):
        B, S = ids.shape
        x = self.table(ids)
        x = x + torch.arange(S, device=ids.device)[None, :, None] / S
        x = self.norm(x.mean(1))
        return self.out(x)


class Distances(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return torch.cdist(self.fc(x), x)


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
