"""The frozen model of a new run: read from a checkpoint, and stored in blocks where model.py has it so."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...base.contracts import Config, Steps, Weights
from ...base.hf_files import WEIGHTS, Stored, check_config, find, folder_of, open_tensors
from ...base.state import TrainState, flatten
from ...base.tensors import Tensor, stored_there, wholes
from ...nn.adapters.blocks import OF_CODES, Blocks
from ...nn.adapters.settings import CODES, KERNEL, SCALES
from ..load import match, start_from
from .lora import PREFIX, Lora, changes_of_lengths, renamed, whole_kernels
from .peft import base_of, read_adapter


@dataclass(frozen=True)
class Frozen:
    """What a checkpoint calls the frozen parameters: `OwnWeights` of base.contracts.

    modules: as `Lora.export` has them.
    """

    weights: Weights
    modules: Mapping[str, str] = field(default_factory=dict)

    def tensors(self, config: Any) -> Mapping[str, Tensor]:
        """Return what those of the model are called, by path."""
        return self.weights.tensors(config)

    def load(self, source: str, steps: Steps, config: Config) -> tuple[TrainState, list[str]]:
        """Return what checkpoints.load's `load` does. Raises UserError.

        source: a checkpoint, or the folder of an adapter, which is put on the checkpoint that it names.
        """
        adapter, heads_there = dict[str, jax.Array](), None
        base = base_of(source)
        if base != source:
            lora: Lora = config.lora  # type: ignore[attr-defined]
            table, like = self.tensors(config.model), flatten(steps.state.params)
            heads_there = self._heads(folder_of(source), steps, config)
            apart = heads_there.there if heads_there else ()
            own = lora, table, steps.shapes, like, self.modules, apart
            adapter = read_adapter(folder_of(source), *own)
        folder = find(base)
        stored = Stored(folder, open_tensors(folder))
        check_config(folder, self.weights.hf_config(config.model))
        whole = {
            p: leaf.shape for p, leaf in jax.eval_shape(whole_kernels, dict(steps.shapes)).items()
        }
        tensors = self.tensors(config.model)
        heads = steps.classes.read_heads(stored, tensors, config) if steps.classes else None
        table, other = stored_there(tensors, stored.shapes, whole, heads.there if heads else ())
        names = match(stored, table, whole, self.weights.PREFIX, (*self.weights.IGNORED, *other))
        in_blocks = InBlocks(stored, names, table, steps.shapes)
        state, random = start_from(in_blocks, in_blocks.table, steps, config, "", (), heads)
        if heads_there and heads_there.there:
            arrays = dict(state.model.arrays)
            heads_there.fill(arrays, config, folder_of(source))
            adapter |= {path: arrays[path] for path in heads_there.there}
        if adapter:
            adapter |= changes_of_lengths(adapter, state.model.parameters)
            state = steps.start(state.model.with_arrays(state.model.arrays | adapter))
        return state, [path for path in random if path not in adapter]

    def _heads(self, folder: Path, steps: Steps, config: Config) -> Any:
        """Return the Heads of an adapter, for what goes by the names of classes; None for a model without."""
        if not steps.classes:
            return None
        table = renamed(self.tensors(config.model), self.modules)
        table = {path: replace(one, name=PREFIX + one.name) for path, one in table.items()}
        stored = Stored(folder, open_tensors(folder / WEIGHTS))
        return steps.classes.read_heads(stored, table, config)


class InBlocks(Stored):
    """A checkpoint, as if the matrices that model.py stores in blocks were stored so there.

    names: of tensors here -> there.
    table: path of a parameter of the model -> where it is; `self.table` is that of what is stored.
    shapes: of the parameters as they are stored, by path.
    """

    def __init__(
        self,
        stored: Stored,
        names: Mapping[str, str],
        table: Mapping[str, Tensor],
        shapes: Mapping[str, jax.ShapeDtypeStruct],
    ) -> None:
        self.path, self._stored, self._names, self._kernels = stored.path, stored, names, table
        self._like = shapes
        self.table: dict[str, Tensor] = {}
        for path, tensor in table.items():
            layer = path.removesuffix(KERNEL)
            if path in shapes:
                self.table[path] = tensor
            else:
                stack = "".join(" {}" * tensor.depth)
                self.table |= {end: Tensor(end + stack) for end in (layer + CODES, layer + SCALES)}
        sizes = {path: shapes[path].shape for path in self.table}
        self.shapes = {name: whole.shape for name, whole in wholes(self.table, sizes).items()}

    def read(self, name: str, index: tuple[slice, ...]) -> np.ndarray:
        """Return a slice of a tensor, of codes or scales where it is stored so. Raises UserError."""
        if name in self._names:
            return self._stored.read(self._names[name], index)
        path, *stack = name.split(" ")
        layer = path.removesuffix(CODES).removesuffix(SCALES)
        codes, kernel = self._like[layer + CODES], self._kernels[layer + KERNEL]
        form = OF_CODES[codes.dtype.name]
        block = codes.shape[-2] * form.packed
        rows = range(index[0].start * block, index[0].stop * block)
        there = kernel.index([rows, range(index[2].start, index[2].stop)])
        piece = self._stored.read(self._names[kernel.name_at([*map(int, stack)])], there)
        matrix = piece.transpose(kernel.order or (0, 1))
        dtype = self._like[layer + SCALES].dtype
        parts = _quantize(form, block, jnp.asarray(matrix, dtype))
        return np.asarray(parts[path.endswith(SCALES)])[:, index[1]]


@partial(jax.jit, static_argnums=(0, 1))
def _quantize(form: Blocks, block: int, matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    return form.quantize(matrix, block)
