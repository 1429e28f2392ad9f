"""An adapter that PEFT wrote, or `export`, as the start of a run."""

import math
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ...base.messages import UserError, listed, print_once
from ...base.hf_files import ADAPTER, BASE, Stored, base_of, open_tensors, read_json
from ...base.tensors import Tensor
from ...nn.adapters.settings import KERNEL, A, B, M, scale_of
from ..checkpoint import Checkpoints
from ..load import checkpoints_of
from .lora import ALIKE, FILES, LENGTHS, PREFIX, Lora, renamed, stored_layers
from .runs import record_of

__all__ = ["base_of", "base_of_run", "check_sizes", "read_adapter"]


def read_adapter(
    folder: Path,
    lora: Lora,
    table: Mapping[str, Tensor],
    shapes: Mapping[str, jax.ShapeDtypeStruct],
    like: Mapping[str, jax.ShapeDtypeStruct],
    modules: Mapping[str, str],
    apart: Container[str] = (),
    stored_as: Callable[..., Stored] = Stored,
) -> dict[str, jax.Array]:
    """Return the parameters of an adapter, by path; those of layers that it has not are left out.

    Of DoRA, the lengths of columns.

    Layers that are trained in full beside it, PEFT's modules_to_save, are read where it has them.
    lora: the sizes of the model's. table, modules: as `Lora.export` has them.
    shapes: those of the model's parameters, by path, without padding.
    like: the parameters that are trained, as they lie on devices.
    apart: paths of those that are read otherwise. stored_as: what makes a Stored of the file.
    Raises UserError for other sizes, and for tensors that the model has no place for.
    """
    check_sizes(folder, lora, dora=any(path.endswith(M) for path in like))
    stored = stored_as(folder, open_tensors(folder / FILES[0]))
    unused, arrays = {*stored.shapes}, dict[str, jax.Array]()

    def keep(path: str, value: np.ndarray) -> None:
        if value.shape != (here := shapes[path].shape):
            what = f"{value.shape} there, {here} here, for {path}"
            raise UserError(f"--init: {folder}: {what}: choose an adapter of this model")
        arrays[path] = _place(value, like[path])

    table = renamed(table, modules)
    for path in like:
        if path in table and (name := PREFIX + table[path].name) in unused:
            if path not in apart:
                keep(path, stored.read(name, ()).transpose(table[path].order or None))
            unused.remove(name)
    for path, value in _adapted_layers(stored, lora, table, like, unused):
        keep(path, value)
    if unused:
        todo = "Choose an adapter of these layers, or a project whose --lora has its targets."
        title = f"--init: the adapter {folder} has what this model has no place for:"
        raise UserError(listed(title, sorted(unused), todo))
    return arrays


def _adapted_layers(
    stored: Stored,
    lora: Lora,
    table: Mapping[str, Tensor],
    like: Mapping[str, jax.ShapeDtypeStruct],
    unused: set[str],
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the parameters of the layers that a file has, by path. unused: names of tensors, of which those that are read go"""
    for whole, layers in stored_layers(table).items():
        adapted = [layer for layer in layers if layer + A in like]
        for number, layer in enumerate(adapted):
            stack = like[layer + A].shape[: whole.depth]
            paths = [PREFIX + whole.name_at(at).removesuffix("weight") for at in np.ndindex(*stack)]
            names = {end: [f"{one}lora_{end}.weight" for one in paths] for end in "AB"}
            if not unused & {*names["A"]} and number == 0:
                break
            a, b = (np.stack([_tensor(stored, one) for one in names[end]]) for end in "AB")
            unused -= {*names["A"], *names["B"]}
            # Of several layers in one tensor each may have features of its own, or all the same.
            at = slice(number * lora.lora_rank, (number + 1) * lora.lora_rank)
            own = at if a.shape[1] == len(adapted) * lora.lora_rank else slice(None)
            part = table[layer + KERNEL].part
            rows = slice(*part[1:]) if part else slice(None)
            for end, x in ((A, a[:, own]), (B, b[:, rows, own])):
                yield layer + end, x.swapaxes(1, 2).reshape(*stack, x.shape[2], x.shape[1])
            if layer + M in like:
                lengths = [one + LENGTHS for one in paths]
                unused -= {*lengths}
                m = np.stack([_tensor(stored, one) for one in lengths])[:, rows]
                yield layer + M, m.reshape(*stack, -1)


def base_of_run(init: str | None, parameters: Collection[str]) -> str:
    """Return the checkpoint that an adapter is of; "" where there is none, and say what to do where that is a run.

    init: what its run started from: a run that trained an adapter is followed to what it started from itself.
    parameters: the paths of the model that is exported.
    """
    own = {path for path in parameters if path.endswith(A)}
    while folder := checkpoints_of(init):
        before = {path for path in Checkpoints(folder).paths() if path.endswith(A)}
        if before.isdisjoint(own):  # of several models it is that which it trained
            before = {path.partition("/")[2] for path in before}
        if not before or not before <= own:
            todo = "" if before else f", or export {init} first and write that folder there"
            what = f"{ADAPTER} names no {BASE}, since the adapter is of what {init} was trained to"
            print_once(f"{what}: give --merge for the whole model{todo}")
            return ""
        init, own = record_of(folder)["init"], before
    return base_of(init)


def check_sizes(folder: Path, lora: Lora, dora: bool = False) -> None:
    """Raise UserError where an adapter is none of these sizes. dora: whether the model's has lengths of columns."""
    config = read_json(folder / FILES[1])
    if config.get("peft_type") != "LORA":
        what = f"an adapter of kind {config.get('peft_type')}"
        raise UserError(f"--init: {folder} is {what}, and not LORA: choose another")
    rank: Any = config.get("r")
    alpha: Any = config.get("lora_alpha")
    for key, value in (("r", rank), ("lora_alpha", alpha)):
        if type(value) not in (int, float):
            raise UserError(f"--init: {folder}: {key} of {FILES[1]} is {value!r}, and no number")
    by_root = bool(config.get("use_rslora"))
    lora.check_same(folder, rank, alpha, by_root, bool(config.get("use_dora")), dora)
    scale = lora.scale
    ranks, alphas = _patterns(folder, config)
    for name in {**ranks, **alphas}:
        other = scale_of(alphas.get(name, alpha), ranks.get(name, rank), by_root)
        if not math.isclose(other, scale, rel_tol=ALIKE):
            what = f"{name} adds {other:g} times its products, and other layers {scale:g}"
            todo = "choose an adapter that has one scale"
            raise UserError(f"--init: {folder}: {what} (alpha_pattern of {FILES[1]}): {todo}")


def _patterns(folder: Path, config: Mapping[str, Any]) -> list[Mapping[str, float]]:
    """Return the ranks and the alphas that some layers of an adapter have, by their names. Raises UserError."""
    patterns = [config.get(f"{name}_pattern") or {} for name in ("rank", "alpha")]
    for one in patterns:
        values = one.values() if isinstance(one, Mapping) else [one]
        if not all(type(value) in (int, float) and value > 0 for value in values):
            what = f"a pattern of {FILES[1]} is {one!r}, and has no numbers above 0"
            raise UserError(f"--init: {folder}: {what}: choose another adapter")
    return patterns


def _tensor(stored: Stored, name: str) -> np.ndarray:
    if name not in stored.shapes:
        raise UserError(f"--init: {stored.path} lacks {name}: an adapter must have all layers")
    return stored.read(name, ())


def _place(value: np.ndarray, like: jax.ShapeDtypeStruct) -> jax.Array:
    """Return an array as `like`, which zeros fill up."""
    rows = [(0, m - n) for n, m in zip(value.shape, like.shape, strict=True)]
    whole = np.pad(value, rows).astype(like.dtype)
    return jax.make_array_from_callback(like.shape, like.sharding, lambda index: whole[index])
