"""Classes of PyTorch that compute of some rows, as a mask selects them."""

import torch
from torch import nn
from torch.nn import functional as F


class Chosen(nn.Module):
    """Has experts, each of which computes those tokens that chose it; and an adapter of each kind of row."""

    def __init__(self, width=16, inner=24, experts=4, kinds=2):
        super().__init__()
        self.experts = experts
        self.gate = nn.Linear(width, experts)
        self.up = nn.Parameter(torch.randn(experts, inner, width) / 4)
        self.down = nn.Parameter(torch.randn(experts, width, inner) / 4)
        self.adapters = nn.ModuleList(nn.Linear(width, width) for _ in range(kinds))

    def forward(self, x, kind):
        flat = x.flatten(0, 1)
        shares, chosen = self.gate(flat).softmax(-1).topk(2, dim=-1)
        mask = F.one_hot(chosen, self.experts + 1).permute(2, 1, 0)  # and one of no expert
        result = torch.zeros_like(flat)
        for expert in torch.greater(mask.sum((-1, -2)), 0).nonzero():
            place, token = torch.where(mask[expert[0]].squeeze(0))
            if token.numel() == 0:
                continue
            rows = F.silu(F.linear(flat[token], self.up[expert[0]]))
            rows = F.linear(rows, self.down[int(expert[0])]) * shares[token, place, None]
            result.index_add_(0, token, rows)
        result = result.view_as(x)
        written = torch.zeros_like(result)
        for i, adapter in enumerate(self.adapters):
            of_kind = kind == i
            written[of_kind] = adapter(result[of_kind])
        return written


class Selects(nn.Module):
    """Gives a mean of rows that are written nowhere."""

    def __init__(self, width=16):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x, kind):
        return self.fc(x[kind == 1]).mean(0)


class Listed(nn.Module):
    """Has a list of experts, and adds what each gives to the rows of the tokens that chose it."""

    def __init__(self, width=16, experts=4):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, x, kind):
        flat = x.flatten(0, 1)
        shares, chosen = torch.topk(self.gate(flat), 2, dim=-1)
        shares = shares.softmax(-1)
        result = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            token, place = torch.where(chosen == i)
            result[token] += expert(flat[token]) * shares[token, place, None]
        return result.view_as(x)


class Asked(Listed):
    """Asks whether any token chose an expert, and selects by a mask."""

    def forward(self, x, kind):
        flat = x.flatten(0, 1)
        shares, chosen = torch.topk(self.gate(flat), 2, dim=-1)
        shares = torch.zeros_like(self.gate(flat)).scatter(-1, chosen, shares.softmax(-1))
        result = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            mask = (chosen == i).any(dim=-1)
            if mask.any():
                result[mask] += expert(flat[mask]) * shares[mask, i].unsqueeze(1)
        return result.view_as(x)


class Counts(Asked):
    """Does more than write rows where any token chose an expert."""

    def forward(self, x, kind):
        result, flat = super().forward(x, kind), x.flatten(0, 1)
        chosen = self.gate(flat).argmax(-1)
        for i, expert in enumerate(self.experts):
            if (chosen == i).any():
                result = result + expert.bias
        return result
