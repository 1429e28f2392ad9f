"""Which parts are lists of others, and whether these are called one after the other."""

from __future__ import annotations

from torch import nn

from redco_new.pytorch.rows import Row


def is_list(part: nn.Module) -> bool:
    """Return whether a part is a list or a dict of parts, and is not called itself, as what parametrizes a weight is."""
    several = isinstance(part, nn.ModuleList | nn.ModuleDict)
    return several and type(part).forward is nn.Module.forward


def is_sequential(part: nn.Module) -> bool:
    """Return whether a part calls its entries one after the other, and does nothing more."""
    return isinstance(part, nn.Sequential) and type(part).forward is nn.Sequential.forward


def is_numbered(part: nn.Module) -> bool:
    """Return whether a part is a list of parts that is called in a way of its own: its class has them in `layers`."""
    several = isinstance(part, nn.Sequential | nn.ModuleList) and not isinstance(part, Row)
    return several and not is_sequential(part) and not is_list(part)
