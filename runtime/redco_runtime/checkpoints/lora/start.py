"""The frozen model of a new run: read from a checkpoint, and stored in few bits where model.py has it so, by qlora.py."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import jax

from ...base.contracts import Config, Steps, Weights
from ...base.messages import feature
from ...base.hf_files import WEIGHTS, Stored, find, folder_of, open_checkpoint, open_tensors
from ...base.state import TrainState, flatten
from ...base.tensors import Tensor, stored_there
from ...nn.adapters.settings import CODES
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
    read: ClassVar[Callable[..., dict[str, jax.Array]]] = staticmethod(read_adapter)

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
            lora: Lora = config.lora
            table, like = self.tensors(config.model), flatten(steps.state.params)
            heads_there = self._heads(folder_of(source), steps, config)
            apart = heads_there.there if heads_there else ()
            own = lora, table, steps.shapes, like, self.modules, apart
            adapter = self.read(folder_of(source), *own)
        folder = find(base)
        stored = open_checkpoint(folder, self.weights.hf_config(config.model))
        whole = {
            p: leaf.shape for p, leaf in jax.eval_shape(whole_kernels, dict(steps.shapes)).items()
        }
        tensors = self.tensors(config.model)
        heads = steps.classes.read_heads(stored, tensors, config) if steps.classes else None
        table, other = stored_there(tensors, stored.shapes, whole, heads.there if heads else ())
        prefix, ignored = self.weights.PREFIX, (*self.weights.IGNORED, *other)
        if any(path.endswith(CODES) for path in steps.shapes):
            names = match(stored, table, whole, prefix, ignored)
            form = feature("adapters", "checkpoints.lora.qlora")
            stored = form.InBlocks(stored, names, table, steps.shapes)
            table, prefix, ignored = stored.table, "", ()
        state, random = start_from(stored, table, steps, config, prefix, ignored, heads)
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
