"""An adapter (LoRA, Hu et al. 2021) as files that PEFT loads, or added into the model that it is of."""

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from ...base.messages import UserError, feature
from ...base.hf_files import ADAPTER, LABELS, WEIGHTS
from ...base.tensors import Tensor
from ...nn.adapters.layers import LoraSettings
from ...nn.adapters.settings import (
    CODES,
    KERNEL,
    SCALES,
    A,
    Arrays,
    B,
    M,
    add_adapter,
    scale_of,
)
from ..export import Tensors, new_folder, write
from .runs import adapter_of

PREFIX = "base_model.model."  # of what PEFT calls a tensor, before the name in the model
LENGTHS = "lora_magnitude_vector"
FILES = WEIGHTS, ADAPTER
# Of two alphas, relatively: what float32, in which they multiply, can barely tell apart.
ALIKE = 1e-6


@dataclass(frozen=True)
class Lora(LoraSettings):
    """What an adapter is, and what it is written as: a section of config.py. Raises UserError."""

    def merge(self, parameters: Arrays) -> dict[str, jax.Array]:
        """Return the parameters of the model alone, with what the adapter adds; dtypes stay.

        A kernel that is stored in blocks is a matrix in the dtype of their scales.
        """
        merged = whole_kernels(parameters)
        for layer in _adapted(parameters):
            parts = [parameters[layer + end] for end in (A, B, M) if layer + end in parameters]
            merged[layer + KERNEL] = jax.jit(self._add)(merged[layer + KERNEL], *parts)
        return merged

    def _add(self, kernel: jax.Array, *adapter: jax.Array) -> jax.Array:
        return add_adapter(kernel, self.scale, adapter).astype(kernel.dtype)

    def check_run(self, directory: Path, there: Mapping[str, Any], like: Mapping[str, Any]) -> None:
        """Raise UserError where the adapter of a run is another than the model's, on layers that both have.

        directory: its checkpoints. there, like: what it has, and what the model has, by path.
        """
        if both := [layer for layer in _adapted(there) if layer + A in like]:
            config, rank = adapter_of(directory), there[both[0] + A].shape[-1]
            alpha, by_root = config["lora_alpha"], config.get("use_rslora", False)
            dora, own = (any(x + M in paths for x in both) for paths in (there, like))
            self.check_same(directory, rank, alpha, by_root, dora, own)

    def check_same(
        self, folder: Path, rank: float, alpha: float, by_root: bool, dora: bool, own: bool
    ) -> None:
        """Raise UserError where an adapter is not of these sizes. own: whether the model's is of DoRA."""
        if dora != own:
            which, todo = ("one of DoRA", "true") if dora else ("none of DoRA", "false")
            raise UserError(
                f"--init: the adapter {folder} is {which}, and the model's is another: "
                f"redco update --lora dora={todo}, with its other values, makes it so"
            )
        if rank != self.lora_rank:
            raise UserError(
                f"--init: {folder} is an adapter of rank {rank}, and the model's is {self.lora_rank}: "
                f"give --lora-rank {rank}"
            )
        if not math.isclose(scale := scale_of(alpha, rank, by_root), self.scale, rel_tol=ALIKE):
            root = "the root of the rank" if by_root else "the rank"
            raise UserError(
                f"--init: {folder} is an adapter that adds alpha {alpha:.8g} / {root} times its products, {scale:g}, "
                f"and the model's {self.scale:g} times: "
                f"give --lora-alpha {alpha:.8g} --use-rslora {str(by_root).lower()}"
            )

    def export(
        self,
        parameters: Arrays,
        directory: Path,
        *,
        table: Mapping[str, Tensor],
        shapes: Mapping[str, jax.ShapeDtypeStruct],
        base: str = "",
        task: str = "",
        saved: Sequence[str] = (),
        modules: Mapping[str, str] | None = None,
        tokenizer: Any = None,  # of transformers, which is not typed
        labels: Sequence[str] = (),
    ) -> None:
        """Write `directory`: the adapter as PEFT has it, and what `tokenizer` saves. All of it, or nothing.

        All processes call this and process 0 writes. Raises UserError.
        parameters, shapes: those of the model and its adapter; shapes are without padding.
        table: path of a parameter of the model -> its tensor in a checkpoint.
        base: that checkpoint, a folder or an id of the hub; "" where there is none.
        task: what PEFT calls it; "" for one without a name.
        saved: the layers of the model that are trained in full beside it: PEFT's modules_to_save.
        modules: parts of the names of tensors -> what PEFT has there, where that differs.
        labels: names of the classes of its head, by number, for which PEFT has no place: its file has them.
        """
        table = renamed(table, modules or {})
        shapes = {**shapes, **jax.eval_shape(self.merge, dict(shapes))}
        counts: dict[str, int] = {}
        rows: dict[str, tuple[Tensor, jax.Array]] = {}
        for stored, layers in stored_layers(table).items():
            parts = [layer for layer in layers if layer + A in parameters]
            if parts:
                counts[stored.name] = len(parts)
                rows |= self._rows(stored, layers, parts, parameters, shapes, table)
        whole = {p: x for p, x in parameters.items() if p.partition("/")[0] in saved}
        for path, x in whole.items():
            tensor = replace(table[path], name=PREFIX + table[path].name)
            rows[path] = tensor, _cut(x, shapes[path].shape)
        arrays = {path: array for path, (_, array) in rows.items()}
        tensors = Tensors(arrays, arrays, {path: tensor for path, (tensor, _) in rows.items()})
        transposed = any(not table[f"{layer}{KERNEL}"].order for layer in _adapted(parameters))
        config = self._config(counts, [x.name for x in stored_layers(table)])
        config |= {"fan_in_fan_out": transposed, "task_type": task or None}
        config["use_dora"] = any(path.endswith(M) for path in parameters)
        if within := (modules or {}).get("model."):  # beside what reads more than texts
            config["exclude_modules"] = f"(?!{re.escape(within)}).*"
        if whole:
            modules_to_save = {table[path].name.rpartition(".")[0] for path in whole}
            config["modules_to_save"] = sorted(modules_to_save)
        with new_folder(directory) as folder:
            file = folder / FILES[0] if folder else Path(os.devnull)
            write(file, [*tensors.heads], tensors, {LABELS: json.dumps(labels)} if labels else {})
            if folder:
                is_path = base and Path(base).exists()
                config["base_model_name_or_path"] = str(Path(base).resolve()) if is_path else base
                (folder / FILES[1]).write_text(json.dumps(config, indent=2) + "\n")
                if tokenizer:
                    tokenizer.save_pretrained(folder)

    def _rows(
        self,
        stored: Tensor,
        layers: list[str],
        parts: list[str],
        parameters: Arrays,
        shapes: Mapping[str, jax.ShapeDtypeStruct],
        table: Mapping[str, Tensor],
    ) -> dict[str, tuple[Tensor, jax.Array]]:
        """Return path -> (its tensor, an array) of the adapter of a stored tensor, of several layers.

        Where q, k and v are one tensor, the adapters of `parts` lie side by side in one of as many
        times the rank; a layer that has none gets zeros.
        """
        R, one = self.lora_rank, partial(replace, stored)
        name = f"{PREFIX}{stored.name.removesuffix('.weight')}"
        rows: dict[str, tuple[Tensor, jax.Array]] = {}
        for layer in layers:
            at = R * parts.index(layer) if layer in parts else 0
            kernel, where = shapes[layer + KERNEL].shape, table[layer + KERNEL].part
            b = jnp.zeros((*kernel[:-2], R * len(parts), kernel[-1]), jnp.float32)
            if layer in parts:
                a_shape, b_shape = (shapes[layer + end].shape for end in (A, B))
                a = _cut(parameters[layer + A], a_shape)
                b = b.at[..., at : at + R, :].set(_cut(parameters[layer + B], b_shape))
                rows[layer + A] = one(name=f"{name}.lora_A.weight", part=(0, at, at + R)), a
            part = (0, *where[1:]) if where else None
            rows[layer + B] = one(name=f"{name}.lora_B.weight", part=part), b
            if parts[0] + M in parameters:
                length = _lengths(kernel_of(parameters, layer + M)) + parameters.get(layer + M, 0)
                length = _cut(length, (*kernel[:-2], kernel[-1]))
                rows[layer + M] = one(name=f"{name}.{LENGTHS}", order=(), part=part), length
        return rows

    def _config(self, counts: Mapping[str, int], names: Sequence[str]) -> dict[str, Any]:
        """Return adapter_config.json.

        counts: stored tensor -> how many adapters lie in its one. names: of those of all layers.
        """
        modules = {_module(name): n for name, n in counts.items()}
        several = {module: n for module, n in modules.items() if n > 1}
        return {
            "peft_type": "LORA",
            "r": self.lora_rank,
            "lora_alpha": self.lora_alpha,
            "use_rslora": self.use_rslora,
            "target_modules": _targets(sorted(modules), {*map(_module, names)}),
            "rank_pattern": {module: n * self.lora_rank for module, n in several.items()},
            "alpha_pattern": {
                module: self.lora_alpha * (n**0.5 if self.use_rslora else n)
                for module, n in several.items()
            },
            "lora_dropout": self.lora_dropout,
            "bias": "none",
            "inference_mode": True,
        }


def changes_of_lengths(adapter: Arrays, parameters: Arrays) -> dict[str, jax.Array]:
    """Return path -> how much longer columns are than in the model, of an adapter that has their lengths."""
    paths = [path for path in adapter if path.endswith(M)]
    change = jax.jit(lambda length, kernel: length - _lengths(kernel))
    return {p: change(adapter[p], kernel_of(parameters, p)) for p in paths}


def kernel_of(parameters: Arrays, path: str) -> jax.Array:
    """Return the matrix of the layer that `path` is a parameter of."""
    layer, ends = path.rpartition("/")[0], (KERNEL, CODES, SCALES)
    own = {layer + end: parameters[layer + end] for end in ends if layer + end in parameters}
    return whole_kernels(own)[layer + KERNEL]


def _lengths(kernel: jax.Array) -> jax.Array:
    """Return (..., out), float32: the length of each column."""
    return jnp.linalg.norm(kernel.astype(jnp.float32), axis=-2)


def whole_kernels(parameters: Arrays) -> dict[str, jax.Array]:
    """Return the parameters of the model alone, those that are stored in blocks as matrices."""
    ends = (A, B, M, CODES, SCALES)
    whole = {path: leaf for path, leaf in parameters.items() if not path.endswith(ends)}
    for path in parameters:
        layer = path.removesuffix(CODES)
        if layer != path:
            codes, scales = parameters[path], parameters[layer + SCALES]
            whole[layer + KERNEL] = _restore(codes, scales)
    return whole


@jax.jit
def _restore(codes: jax.Array, scales: jax.Array) -> jax.Array:
    matrices = feature("adapters", "nn.matrices")  # which is there where codes are
    return matrices.restore(codes, scales, scales.dtype)


def _adapted(paths: Mapping[str, Any]) -> list[str]:
    """Return the paths of the layers that have an adapter."""
    return [path.removesuffix(A) for path in paths if path.endswith(A)]


def renamed(table: Mapping[str, Tensor], modules: Mapping[str, str]) -> dict[str, Tensor]:
    """Return a table in which the parts `modules` of the names of tensors are others."""
    for part, other in modules.items():
        table = {k: replace(t, name=t.name.replace(part, other)) for k, t in table.items()}
    return dict(table)


def stored_layers(table: Mapping[str, Tensor]) -> dict[Tensor, list[str]]:
    """Return stored tensor, transposed -> the linear layers whose kernels are in it, in their order there."""
    layers: dict[Tensor, list[str]] = {}
    for path, tensor in sorted(table.items(), key=lambda item: (item[1].part or (0, 0))[1]):
        if path.endswith(KERNEL):
            whole = Tensor(tensor.name, (1, 0), first=tensor.first, step=tensor.step)
            layers.setdefault(whole, []).append(path.removesuffix(KERNEL))
    return layers


def _module(name: str) -> str:
    """Return what a layer calls the module of a stored tensor: attention.output.dense."""
    return name.rpartition("{}.")[2].removesuffix(".weight")


def _targets(chosen: list[str], modules: Iterable[str]) -> list[str] | str:
    """Return what PEFT takes for these modules and no others: their names, or a pattern.

    A name is that of all modules that end with it: output.dense is attention.output.dense too.
    """
    ends = {end for name in modules for end in _ends(name)}
    if ends.isdisjoint(chosen):
        return chosen
    return rf".*\.\d+\.({'|'.join(map(re.escape, chosen))})"


def _ends(name: str) -> list[str]:
    words = name.split(".")
    return [".".join(words[i:]) for i in range(1, len(words))]


def _cut(x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return x[tuple(map(slice, shape))]
