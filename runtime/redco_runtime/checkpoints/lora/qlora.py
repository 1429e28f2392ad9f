"""An adapter beside layers whose kernels are stored in few bits (Dettmers et al. 2023): its settings, and how they are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ...base.hf_files import Stored
from ...base.tensors import Tensor, wholes
from ...nn.adapters.blocks import OF_CODES, Blocks
from ...nn.adapters.settings import CODES, KERNEL, SCALES
from .lora import Lora


@dataclass(frozen=True)
class QLora(Lora):
    """What an adapter is, and how the kernels beside it are stored. Raises UserError."""

    lora_block: int = 64  # elements of a frozen kernel that share a scale, at most


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
