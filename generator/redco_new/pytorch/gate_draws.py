"""What a class draws and drops in PyTorch, as the gate has it: the same each time."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

# Functions that draw, which in evaluation give their mean here, as what is printed for them does there; and what they give in training.
MEANS = {"randn": 0.0, "rand": 0.5, "randn_like": 0.0, "rand_like": 0.5}
STILL = 0.5
# What fills an array with what it draws -> its mean of [0, 1] or of deviation 1, and its own numbers where a call has none.
FILLED = {"uniform_": (0.5, 0.0, 1.0), "normal_": (0.0, 0.0, 1.0)}
SDPA = "scaled_dot_product_attention"
# Functions that drop by themselves -> which argument is the rate.
RATES = dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), 5) | {
    "multi_head_attention_forward": 10
}


def _first_of_equals(
    x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> torch.return_types.topk:
    """Return the k largest numbers and where they are: of equal ones the first, as XLA takes them; PyTorch takes any."""
    values, places = torch.sort(x, dim=dim, descending=largest, stable=True)
    return torch.return_types.topk((values.narrow(dim, 0, k), places.narrow(dim, 0, k)))


def _is_one_of_matrices(x: torch.Tensor, index: Any) -> bool:
    """Return whether one matrix of several is read, as of experts: the gradient of each by itself is as large as that of all."""
    number = type(index) is int or (isinstance(index, torch.Tensor) and index.dtype == torch.int64)
    several = isinstance(x, nn.Parameter) and x.ndim > 2 and torch.is_grad_enabled()
    return several and number and not getattr(index, "ndim", 0)


class WithoutDraws(TorchFunctionMode):
    """Turn dropout off, by whatever function a class calls it, and have the largest of equal numbers be the first of them; matrices that are read one by one are taken apart at once."""

    def __init__(self, training: bool) -> None:
        super().__init__()
        self._training = training
        self._rows: dict[int, tuple[torch.Tensor, ...]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return what a function gives, without dropout."""
        name = getattr(func, "__name__", "")
        if name == "__getitem__" and _is_one_of_matrices(*args):
            parameter, number = args
            if id(parameter) not in self._rows:
                self._rows[id(parameter)] = parameter.unbind()
            return self._rows[id(parameter)][int(number)]
        if "dropout" in name:
            return args[0] if args else kwargs["input"]
        if name in MEANS:
            result = func(*args, **(kwargs or {}))
            return torch.full_like(result, STILL if self._training else MEANS[name])
        if name in FILLED:
            mean, *usual = FILLED[name]
            numbers: Any = (*args, *usual[len(args) - 1 :])
            x, first, second = numbers
            still = STILL if self._training else mean
            return x.fill_(first + still * (second - first if name == "uniform_" else second))
        if name in ("bernoulli", "bernoulli_"):  # what is drawn is divided by its chance
            result, chance = func(*args, **(kwargs or {})), [*args[1:2], *(kwargs or {}).values()]
            return result.copy_(torch.as_tensor(chance[0]) if chance else args[0])
        if name == "topk":
            return _first_of_equals(*args, **(kwargs or {}))
        if place := RATES.get(name):
            args = (*args[:place], 0.0, *args[place + 1 :])
        return func(*args, **{**(kwargs or {}), **({"dropout_p": 0.0} if name == SDPA else {})})
