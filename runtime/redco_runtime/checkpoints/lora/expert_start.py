"""The frozen model of a new run, whose experts have an adapter: one that `export` wrote, or PEFT.

PEFT 0.21 with transformers 5 has the kernels of all experts of a layer as one parameter, gate beside up, and writes
their adapters so (its ParamWrapper): of E experts A is (E R, in) and B (out, R E), in the orders of these letters.
Wrappers of several parameters lie in one another, and the inner, a `base_layer`, is that of gate and up.
"""

import re
from collections.abc import Container, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ...base.messages import UserError
from ...base.hf_files import Stored
from ...base.tensors import Tensor
from ...nn.adapters.settings import A
from . import start
from .lora import PREFIX, Lora, renamed, stored_layers
from .peft import read_adapter

GATE, UP, DOWN = "gate", "up", "down"  # the last names of their paths in model.py
Shapes = Mapping[str, jax.ShapeDtypeStruct]


def read_expert_adapter(
    folder: Path,
    lora: Lora,
    table: Mapping[str, Tensor],
    shapes: Shapes,
    like: Shapes,
    modules: Mapping[str, str],
    apart: Container[str] = (),
) -> dict[str, jax.Array]:
    """Return what `read_adapter` does, of files that have an adapter of each expert, or of all as one. Raises UserError."""
    by_expert = partial(_by_expert, lora.lora_rank, [*_experts(renamed(table, modules), like)])
    return read_adapter(folder, lora, table, shapes, like, modules, apart, by_expert)


class Frozen(start.Frozen):
    """What a checkpoint calls the frozen parameters, and how an adapter beside them is read."""

    read = staticmethod(read_expert_adapter)


def _experts(table: Mapping[str, Tensor], like: Shapes) -> Iterator[tuple[str, Tensor, int, int]]:
    """Yield (kernel, its tensors, layers, experts) of each that has an adapter."""
    for whole, layers in stored_layers(table).items():
        if whole.depth > 1 and layers[0] + A in like:
            yield layers[0].rpartition("/")[2], whole, *like[layers[0] + A].shape[:2]


def _by_expert(
    rank: int, experts: list[tuple[str, Tensor, int, int]], path: Path, tensors: Mapping[str, Any]
) -> Stored:
    """Return the tensors of a file, as if each expert had its own."""
    there, arrays = Stored(path, tensors), dict(tensors)
    for kernel, whole, L, E in experts:
        own = PREFIX + whole.name.removesuffix("weight")
        for layer in range(whole.first, whole.first + L * whole.step, whole.step):
            as_one = _names(own.partition("{}")[0] + str(layer), kernel, there)
            if not as_one:
                continue
            a, b = (there.read(one, ()) for one in as_one)
            for one in as_one:
                arrays.pop(one, None)
            a_ERI, b_ORE = a.reshape(E, -1, a.shape[1]), b.reshape(b.shape[0], -1, E)
            if kernel != DOWN:
                a_ERI, b_ORE = _part(path, rank, kernel == UP, a_ERI, b_ORE)
            for expert in range(E):
                at = own.format(layer, expert)
                arrays[f"{at}lora_A.weight"] = a_ERI[expert]
                arrays[f"{at}lora_B.weight"] = b_ORE[..., expert]
    return Stored(path, arrays)


def _names(layer: str, kernel: str, there: Stored) -> list[str]:
    """Return the names of A and B of all experts of a layer as one; [] where there are none. Raises UserError."""
    wrapped = re.compile(rf"{re.escape(layer)}\.\w+\.experts(\.base_layer)?\.lora_[AB]\.weight")
    names = sorted(name for name in there.shapes if wrapped.fullmatch(name))
    inner = [name for name in names if ".base_layer." in name]
    if names and (len(names), len(inner)) != (4, 2):
        what = f"has an adapter of some kernels of experts alone, at {layer}"
        raise UserError(f"--init: {there.path} {what}: choose one of gate_up_proj and down_proj")
    return [name for name in names if (name in inner) == (kernel != DOWN)]


def _part(
    path: Path, rank: int, is_up: bool, a_ERI: np.ndarray, b_ORE: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return A and B of gate or up alone, which have all features of A, or half of them each. Raises UserError."""
    F = b_ORE.shape[0] // 2
    rows, others = (slice(F, None), slice(F)) if is_up else (slice(F), slice(F, None))
    if a_ERI.shape[1] != 2 * rank:
        return a_ERI, b_ORE[rows]
    features = slice(rank, None) if is_up else slice(rank)
    if b_ORE[others, features].any():
        what = f"gate and up of experts share {2 * rank} features"
        raise UserError(f"--init: {path}: {what}: choose a project of --lora rank={2 * rank}")
    return a_ERI[:, features], b_ORE[rows, features]
