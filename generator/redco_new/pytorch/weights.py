"""Where PyTorch stores what the printed model holds: a table from its state_dict."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from redco_new.pytorch.lists import is_numbered
from redco_new.pytorch.buffers import tensors_of
from redco_new.pytorch.experts import by_checkpoint_names, checkpoint_names, is_served
from redco_new.pytorch.leaves import LEAVES
from redco_new.pytorch.periods import Order, order_of
from redco_new.pytorch.printed import Stored
from redco_new.pytorch.rows import part_names


def find_stored(
    module: nn.Module,
    paths: Iterable[str],
    stacked: Collection[str],
    orders: Sequence[Order] = (),
    copies: Collection[str] = (),
) -> tuple[dict[str, Stored], dict[str, Stored]]:
    """Return (parameters, buffers): path in the printed model -> how PyTorch stores it.

    paths: of the arrays of the printed model
    stacked: lists of the class whose parts are one in it
    orders: how lists of the class were taken apart there
    copies: parts that it has for another program: what is saved is the others'
    """
    apart = tuple(f"{path.replace('.', '/')}/" for path in copies)
    table = dict(_table(module, stacked, orders))
    saved = set(by_checkpoint_names(module, module.state_dict()))
    buffers = {name for name, _ in module.named_buffers(remove_duplicate=False)}
    named = module.named_parameters(remove_duplicate=False)
    buffers |= {name for name, x in named if not x.requires_grad}  # which is not trained
    of_parameters: dict[str, Stored] = {}
    of_buffers: dict[str, Stored] = {}
    for path in (x for x in paths if not x.startswith(apart)):
        stored = table[path]
        tensor = _tensor(stored)
        first = tensor.name_at([0] * tensor.depth)
        if first in saved:
            to = of_buffers if first in buffers else of_parameters
            to[path] = stored
    return of_parameters, of_buffers


def _table(
    module: nn.Module, stacked: Collection[str], orders: Sequence[Order]
) -> Iterator[tuple[str, Stored]]:
    """Yield (path in the printed model, how PyTorch stores it) of all that a class holds."""
    for prefix, part in module.named_modules():
        leaf = LEAVES.get(type(part))
        place = model_path(module, prefix, stacked, orders)
        if is_served(part):
            for own, name in checkpoint_names(module, prefix).items():
                yield "/".join([*place, own]), _stored(name, (1, 0), stacked, orders)
            continue
        for name in [*part._parameters, *tensors_of(part)]:
            own, order = leaf.stored.get(name, (name, ())) if leaf else (name, ())
            whole = f"{prefix}.{name}".lstrip(".")
            yield "/".join([*place, own]), _stored(whole, order, stacked, orders)


def _stored(
    path: str, dims: tuple[int, ...], stacked: Collection[str], orders: Sequence[Order]
) -> Stored:
    """Return how a parameter is stored, with {} for its place in lists that are stacked."""
    names, first, step = path.split("."), 0, 1
    for i in range(1, len(names)):
        above = ".".join(path.split(".")[:i])
        order = order_of(orders, above)
        place = order.place(int(names[i])).split(".") if order else [*names[:i]]
        if ".".join(place[:i]) in stacked:
            if order:
                first, step = order.first_and_step(int(names[i]))
            names[i] = "{}"
    return Stored(".".join(names), dims, first, step)


def model_path(
    module: nn.Module, path: str, stacked: Collection[str], orders: Sequence[Order] = ()
) -> list[str]:
    """Return the path in the printed model of a part: a Sequential holds its entries in `layers`."""
    names: list[str] = []
    part, so_far = module, ""
    for name in path.split(".") if path else ():
        if order := order_of(orders, so_far):
            above = so_far.count(".")
            place = order.place(int(name)).split(".")
            own = place[above:]
            if ".".join(place[: above + 1]) in stacked:
                del own[1]  # its number
            names[-1:] = own
        elif isinstance(part, nn.Sequential) or is_numbered(part):
            names += ["layers", str([*part._modules].index(name))]  # whatever it is called
        elif so_far.rpartition(".")[0] in stacked and type(part) is nn.ModuleList:
            names.append(part_names(module, so_far.rpartition(".")[0])[int(name)])
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
    tensor = _tensor(stored)
    arrays = [
        _ordered(weights[tensor.name_at(index)], stored.order, shape[tensor.depth :])
        for index in np.ndindex(*shape[: tensor.depth])
    ]
    return np.stack(arrays).reshape(shape)


def _tensor(stored: Stored) -> Any:
    """Return the runtime's Tensor of what is stored."""
    from redco_runtime.base.tensors import Tensor  # late: it is on the path once make.py has begun

    return Tensor(stored.name, first=stored.first, step=stored.step)


def _ordered(
    tensor: torch.Tensor | None, order: tuple[int, ...], shape: tuple[int, ...]
) -> np.ndarray:
    if tensor is None:
        return np.zeros(shape, np.float32)
    if tensor.is_floating_point():  # numpy has no bfloat16
        tensor = tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32))
    array = tensor.numpy()
    return array.transpose(order) if order else array
