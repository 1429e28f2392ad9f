"""An adapter that PEFT wrote, or `export`, as the start of a run."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from redco_runtime.adapters.lora import FILES, PREFIX, Lora, renamed, stored_layers
from redco_runtime.errors import UserError, listed
from redco_runtime.merge import KERNEL, A, B
from redco_runtime.stored import Stored, base_of, open_tensors, read_json
from redco_runtime.weights import Tensor

ALIKE = (
    1e-6  # of two alphas, relatively: what float32, in which they multiply, can barely tell apart
)

__all__ = ["base_of", "check_sizes", "read_adapter"]


def read_adapter(
    folder: Path,
    lora: Lora,
    table: Mapping[str, Tensor],
    shapes: Mapping[str, jax.ShapeDtypeStruct],
    like: Mapping[str, jax.ShapeDtypeStruct],
    modules: Mapping[str, str],
) -> dict[str, jax.Array]:
    """Return the parameters of an adapter, by path; those of layers that it has not are left out.

    Layers that are trained in full beside it, PEFT's modules_to_save, are read where it has them.
    lora: the sizes of the model's. table, modules: as `Lora.export` has them.
    shapes: those of the model's parameters, by path, without padding.
    like: the parameters that are trained, as they lie on devices.
    Raises UserError for other sizes, and for tensors that the model has no place for.
    """
    check_sizes(folder, lora)
    stored = Stored(folder, open_tensors(folder / FILES[0]))
    unused, arrays = {*stored.shapes}, dict[str, jax.Array]()

    def keep(path: str, value: np.ndarray) -> None:
        if value.shape != (here := shapes[path].shape):
            what = f"{value.shape} there, {here} here, for {path}"
            raise UserError(f"--init: {folder}: {what}: choose an adapter of this model")
        arrays[path] = _place(value, like[path])

    table = renamed(table, modules)
    for path in like:
        if path in table and (name := PREFIX + table[path].name) in unused:
            keep(path, stored.read(name, ()).transpose(table[path].order or None))
            unused.remove(name)
    for name, layers in stored_layers(table).items():
        adapted = [layer for layer in layers if layer + A in like]
        for number, layer in enumerate(adapted):
            stack = like[layer + A].shape[: name.count("{}")]
            wholes = [PREFIX + name.removesuffix("weight").format(*at) for at in np.ndindex(*stack)]
            names = {end: [f"{one}lora_{end}.weight" for one in wholes] for end in "AB"}
            if not unused & {*names["A"]} and number == 0:
                break
            a, b = (np.stack([_tensor(stored, one) for one in names[end]]) for end in "AB")
            unused -= {*names["A"], *names["B"]}
            # Of several layers in one tensor each may have features of its own, or all the same.
            at = slice(number * lora.rank, (number + 1) * lora.rank)
            own = at if a.shape[1] == len(adapted) * lora.rank else slice(None)
            part = table[layer + KERNEL].part
            rows = slice(*part[1:]) if part else slice(None)
            for end, x in ((A, a[:, own]), (B, b[:, rows, own])):
                keep(layer + end, x.swapaxes(1, 2).reshape(*stack, x.shape[2], x.shape[1]))
    if unused:
        todo = "Choose an adapter of these layers, or a project whose --lora has its targets."
        title = f"--init: the adapter {folder} has what this model has no place for:"
        raise UserError(listed(title, sorted(unused), todo))
    return arrays


def check_sizes(folder: Path, lora: Lora) -> None:
    """Raise UserError where an adapter is none of these sizes."""
    config = read_json(folder / FILES[1])
    if config.get("peft_type") != "LORA":
        what = f"an adapter of kind {config.get('peft_type')}"
        raise UserError(f"--init: {folder} is {what}, and not LORA: choose another")
    rank: Any = config.get("r")
    alpha: Any = config.get("lora_alpha")
    for key, value in (("r", rank), ("lora_alpha", alpha)):
        if type(value) not in (int, float):
            raise UserError(f"--init: {folder}: {key} of {FILES[1]} is {value!r}, and no number")
    if rank != lora.rank:
        raise UserError(
            f"--init: {folder} is an adapter of rank {rank}, and the model's is {lora.rank}: "
            f"give --lora-rank {rank}"
        )
    why = ""
    if config.get("use_rslora"):  # times alpha / sqrt(rank), and not alpha / rank
        why = f", which is {alpha:g} times the root of the rank (use_rslora)"
        alpha *= rank**0.5
    if not math.isclose(alpha, lora.alpha, rel_tol=ALIKE):
        raise UserError(
            f"--init: {folder} is an adapter of alpha {alpha:.8g}{why}, and the model's is "
            f"{lora.alpha:g}: give --lora-alpha {alpha:.8g}"
        )


def _tensor(stored: Stored, name: str) -> np.ndarray:
    if name not in stored.shapes:
        raise UserError(f"--init: {stored.path} lacks {name}: an adapter must have all layers")
    return stored.read(name, ())


def _place(value: np.ndarray, like: jax.ShapeDtypeStruct) -> jax.Array:
    """Return an array as `like`, which zeros fill up."""
    rows = [(0, m - n) for n, m in zip(value.shape, like.shape, strict=True)]
    whole = np.pad(value, rows).astype(like.dtype)
    return jax.make_array_from_callback(like.shape, like.sharding, lambda index: whole[index])
