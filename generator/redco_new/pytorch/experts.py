"""Experts of transformers as one operation of a program: that of our runtime, or each of every token where it has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from redco_new.errors import RedcoError
from redco_new.pytorch.refusal import refuse

# Of a stored matrix of gates and of what they let through, one below the other, and of that which comes after.
PAIR, LAST = "gate_up_proj", "down_proj"
PARTS = {"gate_proj": PAIR, "up_proj": PAIR, LAST: LAST}  # in model.py -> in the class


@torch.library.custom_op("redco::experts", mutates_args=())
def experts(
    x: torch.Tensor,
    numbers: torch.Tensor,
    shares: torch.Tensor,
    pair: torch.Tensor,
    last: torch.Tensor,
) -> torch.Tensor:
    """Return what experts make of (T, D): silu of a gate, times what it lets through, and a product of that."""
    gate, up = torch.einsum("td,efd->etf", x, pair).chunk(2, dim=-1)
    of_each = torch.einsum("etf,edf->etd", functional.silu(gate) * up, last)
    return _add_up(of_each, numbers, shares)


@experts.register_fake
def _shape(x, numbers, shares, pair, last):
    return torch.empty_like(x)


def compute_experts(
    module: Any, x: torch.Tensor, numbers: torch.Tensor, shares: torch.Tensor
) -> torch.Tensor:
    """Return what the experts of a module make of tokens (T, D): numbers and shares (T, X) of those that were chosen."""
    if is_served(module):
        return torch.ops.redco.experts(x, numbers, shares, module.gate_up_proj, module.down_proj)
    if module.has_post_expert_norm:
        raise NotImplementedError("experts with a norm after them")
    name = PAIR if module.has_gate else "up_proj"
    hidden = _multiply(module, x[None].expand(module.num_experts, -1, -1), name)
    hidden = module._apply_gate(hidden) if module.has_gate else module.act_fn(hidden)
    return _add_up(_multiply(module, hidden, LAST), numbers, shares)


def _add_up(of_each: torch.Tensor, numbers: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """Return (T, D) of (E, T, D): the sum of a token's experts, by their shares."""
    chosen = functional.one_hot(numbers, len(of_each)).to(shares.dtype)
    weights = (chosen * shares[..., None]).sum(1).to(of_each.dtype)
    return torch.einsum("etd,te->td", of_each, weights)


def _multiply(module: Any, x: torch.Tensor, name: str) -> torch.Tensor:
    """Return the product of each expert's rows, (E, T, in), with its matrix."""
    matrix = getattr(module, name)
    product = torch.matmul(x, matrix if module.is_transposed else matrix.transpose(1, 2))
    return product + getattr(module, f"{name}_bias")[:, None] if module.has_bias else product


def is_served(module: Any) -> bool:
    """Return whether a module is of experts as our runtime has them: silu of a gate, without biases."""
    others = ("is_transposed", "has_bias", "has_post_expert_norm")
    if type(module) in _fused:
        return False
    if not isinstance(getattr(module, PAIR, None), nn.Parameter) or not hasattr(module, "has_gate"):
        return False
    has_gate = module.has_gate and getattr(module, "is_concatenated", False)
    silu = getattr(module, "act_fn", None)
    return bool(
        has_gate
        and not any(getattr(module, name) for name in others)
        and (
            isinstance(silu, nn.SiLU)
            or silu is functional.silu
            or type(silu).__name__ == "SiLUActivation"
        )
        and type(module)._apply_gate.__name__ == "_default_apply_gate"
    )


def computes_all(module: nn.Module) -> bool:
    """Return whether a class has experts that are none of our runtime's: each of every token is computed."""
    return any(hasattr(part, "_apply_gate") and not is_served(part) for part in module.modules())


# Classes of experts that checkpoints have in one matrix, as the module: they are computed of each token.
_fused: set[type] = set()
_seen: set[type] = set()


def record_fused(module: nn.Module) -> None:
    """Record which experts of a class are one matrix in checkpoints; a class is asked once."""
    if type(module) in _seen or torch.compiler.is_exporting():
        return
    _seen.add(type(module))
    served = {type(x): path for path, x in module.named_modules() if is_served(x)}
    for kind, path in served.items():
        try:
            with torch.device("cpu"):
                checkpoint_names(module, path)
        except RedcoError:
            _fused.add(kind)


def checkpoint_names(module: Any, path: str) -> dict[str, str]:
    """Return what checkpoints call the matrices of experts, of PARTS, with {} for an expert's number.

    Raises RedcoError where they do not have each by itself.
    """
    from transformers.core_model_loading import revert_weight_conversion

    number = getattr(module.get_submodule(path), LAST).shape[0]
    shapes = {PAIR: (number, 4, 3), LAST: (number, 3, 2)}  # as those of few features
    own = {f"{path}.{name}": torch.rand(shape) for name, shape in shapes.items()}
    stored = revert_weight_conversion(module, own)
    names = {}
    for name, matrix in _matrices(own[f"{path}.{PAIR}"], own[f"{path}.{LAST}"]).items():
        same = [
            key
            for i in (0, 1)
            for key, x in stored.items()
            if x.shape == matrix[i].shape and torch.equal(x, matrix[i])
        ]
        before, _, after = same[0].rpartition(".0.") if same else ("", "", "")
        if same != [f"{before}.{i}.{after}" for i in (0, 1)]:
            what = f"checkpoints do not have the {name} of each expert by itself"
            raise refuse(path, what)
        names[name] = f"{before}.{{}}.{after}"
    return names


def _matrices(pair: torch.Tensor, last: torch.Tensor) -> dict[str, torch.Tensor]:
    gate, up = pair.chunk(2, dim=1)
    return {"gate_proj": gate, "up_proj": up, LAST: last}


def by_checkpoint_names(
    module: nn.Module, values: Mapping[str, torch.Tensor | None]
) -> dict[str, torch.Tensor | None]:
    """Return values of a module's state by the names of checkpoints: of experts, each matrix by itself."""
    result = dict(values)
    for path, part in module.named_modules():
        if not is_served(part):
            continue
        names = checkpoint_names(module, path)
        pair, last = (result.pop(f"{path}.{name}") for name in (PAIR, LAST))
        if pair is None or last is None:
            continue
        for name, matrix in _matrices(pair, last).items():
            result |= {names[name].format(i): x for i, x in enumerate(matrix)}
    return result
