"""Where PyTorch stores what the printed model holds: a table from its state_dict."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
import torch
from torch import nn

from redco_new.pytorch.buffers import tensors_of
from redco_new.pytorch.experts import by_checkpoint_names, checkpoint_names, is_served
from redco_new.pytorch.leaves import LEAVES
from redco_new.pytorch.printed import Stored


def find_stored(
    module: nn.Module, paths: Iterable[str], stacked: Collection[str]
) -> tuple[dict[str, Stored], dict[str, Stored]]:
    """Return (parameters, buffers): path in the printed model -> how PyTorch stores it.

    paths: of the arrays of the printed model
    stacked: lists of the class whose parts are one in it
    """
    table = {path: (name, order) for name, path, order in _table(module, stacked)}
    saved = set(by_checkpoint_names(module, module.state_dict()))
    buffers = {name for name, _ in module.named_buffers(remove_duplicate=False)}
    named = module.named_parameters(remove_duplicate=False)
    buffers |= {name for name, x in named if not x.requires_grad}  # which is not trained
    of_parameters: dict[str, Stored] = {}
    of_buffers: dict[str, Stored] = {}
    for path in paths:
        name, order = table[path]
        first = name.format(*[0] * name.count("{}"))
        if first in saved:
            to = of_buffers if first in buffers else of_parameters
            to[path] = Stored(name, order)
    return of_parameters, of_buffers


def _table(
    module: nn.Module, stacked: Collection[str]
) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield (name in PyTorch, path in the printed model, order) of all that a class holds."""
    for prefix, part in module.named_modules():
        leaf = LEAVES.get(type(part))
        place = model_path(module, prefix, stacked)
        stored_prefix = _with_place(prefix, stacked)
        if is_served(part):
            for own, name in checkpoint_names(module, prefix).items():
                yield _with_place(name, stacked), "/".join([*place, own]), (1, 0)
            continue
        for name in [*part._parameters, *tensors_of(part)]:
            own, order = leaf.stored.get(name, (name, ())) if leaf else (name, ())
            yield f"{stored_prefix}.{name}".lstrip("."), "/".join([*place, own]), order


def _with_place(path: str, stacked: Collection[str]) -> str:
    """Return the name of a part with {} for its place in lists that are stacked."""
    names = path.split(".")
    for i in range(1, len(names)):
        if ".".join(path.split(".")[:i]) in stacked:
            names[i] = "{}"
    return ".".join(names)


def model_path(module: nn.Module, path: str, stacked: Collection[str]) -> list[str]:
    """Return the path in the printed model of a part: a Sequential holds its entries in `layers`."""
    names: list[str] = []
    part, so_far = module, ""
    for name in path.split(".") if path else ():
        if isinstance(part, nn.Sequential):
            names += ["layers", name]
        elif so_far not in stacked:
            names.append(name)
        part, so_far = part.get_submodule(name), f"{so_far}.{name}".removeprefix(".")
    return names


def stack(
    weights: Mapping[str, torch.Tensor | None], stored: Stored, shape: tuple[int, ...]
) -> np.ndarray:
    """Return a parameter of the printed model, of a shape; None of PyTorch is zeros.

    weights: by the names of checkpoints
    """
    from redco_runtime.base.tensors import Tensor  # late: it is on the path once make.py has begun

    depth = stored.name.count("{}")
    tensor = Tensor(stored.name, first=stored.first, step=stored.step)
    arrays = [
        _ordered(weights[tensor.name_at(index)], stored.order, shape[depth:])
        for index in np.ndindex(*shape[:depth])
    ]
    return np.stack(arrays).reshape(shape)


def _ordered(
    tensor: torch.Tensor | None, order: tuple[int, ...], shape: tuple[int, ...]
) -> np.ndarray:
    if tensor is None:
        return np.zeros(shape, np.float32)
    array = tensor.detach().float().numpy() if tensor.is_floating_point() else tensor.numpy()
    return array.transpose(order) if order else array
