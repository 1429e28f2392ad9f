# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Weights of GPT, in and out, by the names that they have in PyTorch, such as blocks.0.attn.out.bias.

`train --init` reads safetensors, as `safetensors.torch.save_model` writes them; `export` writes what
`safetensors.torch.load_model` reads.
"""

from typing import Any

from my_project.model import GPTConfig
from my_project.runtime.base.contracts import Config, Steps
from my_project.runtime.base.hf_files import Stored, find, open_tensors
from my_project.runtime.base.state import PyTree, TrainState, flatten
from my_project.runtime.base.tensor_parts import part_tensors
from my_project.runtime.base.tensors import Tensor, stored_there
from my_project.runtime.checkpoints.load import start_from
from my_project.sharding import APART

PREFIX = ""  # that names in a file may have in front, or may lack
IGNORED = ("head.weight",)  # names in a file of what the model does not hold


def load(source: str, steps: Steps, config: Config) -> tuple[TrainState, list[str]]:
    """Return (state of a new run, paths of what starts anew: none), for train.py.

    source: a file or folder, or an id of Hugging Face. Raises UserError that names what does not fit.
    """
    path = find(source)
    stored = Stored(path, open_tensors(path))
    table, _ = stored_there(tensors(config.model), stored.shapes, {})
    return start_from(stored, table, steps, config, PREFIX, IGNORED)


def saved(config: GPTConfig, variables: PyTree) -> dict[str, Any]:
    """Return path -> array of the variables that PyTorch saves too: what else there is follows from the config."""
    table = tensors(config)
    return {path: array for path, array in flatten(variables).items() if path in table}


def tensors(config: GPTConfig) -> dict[str, Tensor]:
    """Return path of an array in model.py -> the tensor of PyTorch that it is, or is part of."""
    table = {
        "blocks/attn/out/bias": Tensor("blocks.{}.attn.out.bias"),
        "blocks/attn/out/kernel": Tensor("blocks.{}.attn.out.weight", (1, 0)),
        "blocks/attn/qkv/bias": Tensor("blocks.{}.attn.qkv.bias"),
        "blocks/attn/qkv/kernel": Tensor("blocks.{}.attn.qkv.weight", (1, 0)),
        "blocks/down/bias": Tensor("blocks.{}.down.bias"),
        "blocks/down/kernel": Tensor("blocks.{}.down.weight", (1, 0)),
        "blocks/ln_1/bias": Tensor("blocks.{}.ln_1.bias"),
        "blocks/ln_1/scale": Tensor("blocks.{}.ln_1.weight"),
        "blocks/ln_2/bias": Tensor("blocks.{}.ln_2.bias"),
        "blocks/ln_2/scale": Tensor("blocks.{}.ln_2.weight"),
        "blocks/up/bias": Tensor("blocks.{}.up.bias"),
        "blocks/up/kernel": Tensor("blocks.{}.up.weight", (1, 0)),
        "ln/bias": Tensor("ln.bias"),
        "ln/scale": Tensor("ln.weight"),
        "wpe/embedding": Tensor("wpe.weight"),
        "wte/embedding": Tensor("wte.weight", otherwise="head.weight"),
    }
    return part_tensors(table, APART)
