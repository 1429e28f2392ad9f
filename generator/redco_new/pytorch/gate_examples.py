"""What the gate compares with: an example batch, and parameters that tell each other apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from redco_new.pytorch.setting import Setting
from redco_new.pytorch.texts import POSITIONS

NORMED = 8  # examples where they are normed by each other: two are 1 and -1, whatever they were


def examples(module: nn.Module, setting: Setting, inputs: Collection[str]) -> dict[str, np.ndarray]:
    """Return arrays of an example batch: ids that all tables have, numbers of mean 0.

    inputs: what the printed model reads of them: another one is ones, and positions count
    """
    rng = np.random.default_rng(0)
    normed = any(isinstance(part, _BatchNorm) for part in module.modules())
    tables = [part for part in module.modules() if isinstance(part, nn.Embedding | nn.EmbeddingBag)]
    sizes = [table.num_embeddings for table in tables]
    # PyTorch gives these rows no gradient, which no text that is learned reads.
    padding = [table.padding_idx for table in tables if table.padding_idx is not None]
    arrays: dict[str, Any] = {}
    for name, x in setting.inputs.items():
        shape = (NORMED if normed else setting.batch, *x.shape)
        if x.dtype == "bool":
            arrays[name] = rng.random(shape) < 0.9
        elif np.issubdtype(np.dtype(x.dtype), np.integer):
            ids = rng.integers(0, min([x.below or 2**31, *sizes, 256]), shape)
            other = next(i for i in range(len(padding) + 1) if i not in padding)
            arrays[name] = np.where(np.isin(ids, padding), other, ids).astype(x.dtype)
        else:
            arrays[name] = rng.normal(size=shape).astype(x.dtype)
    for name in arrays.keys() - {*inputs}:
        ones = np.ones_like(arrays[name])
        arrays[name] = np.cumsum(ones, axis=1) - 1 if name == POSITIONS else ones
    return arrays


def of_one_kind(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a batch of which all rows, and places of these, are as the first one: what is for others has none."""
    first = {name: x[tuple(slice(1) for _ in x.shape[:2])] for name, x in arrays.items()}
    return {name: np.broadcast_to(first[name], x.shape).copy() for name, x in arrays.items()}


def randomize(module: nn.Module) -> None:
    """Give all parameters values that tell them apart: a bias or a scale of zeros would hide a mistake."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim < 2 or parameter.numel() and (parameter == parameter.min()).all():
                parameter.add_(torch.randn_like(parameter) * 0.1)
