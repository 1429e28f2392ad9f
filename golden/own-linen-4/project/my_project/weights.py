# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Weights of Net, in and out, by the paths that they have in Net itself, such as params/Dense_0/kernel.

`train --init` reads safetensors, msgpack of flax.serialization and folders of Orbax; in names in a file, "." is "/".
`export` writes safetensors, which `--init` reads back.
"""

from collections.abc import Container
from dataclasses import replace

from flax import nnx
from flax.nnx.variablelib import variable_name_from_type as collection

from my_project.formats import open_arrays
from my_project.model import NetConfig, NetModel
from my_project.runtime.base.contracts import Config, Steps
from my_project.runtime.base.hf_files import Stored, find
from my_project.runtime.base.state import TrainState, flatten
from my_project.runtime.base.tensor_parts import part_tensors
from my_project.runtime.base.tensors import Tensor
from my_project.runtime.checkpoints.load import spellings, start_from
from my_project.runtime.step.variables import parts_of
from my_project.sharding import APART

PREFIX = "params/"  # that names in a file may have in front of a path, or may lack
# Names in a file of what is no weight; the last two are the random streams of nnx.Rngs.
IGNORED = ("step", "opt_state/*", "intermediates/*", "*/count", "*/key")


def renamed(path: str) -> Tensor:
    """Return what a file calls an array that it does not have by its own path. Made to be edited.

    path: in Net, such as params/Dense_0/kernel.
    For weights of PyTorch, say, whose kernels have their dims the other way round:

        name = path.removeprefix("params/").replace("block_", "blocks/").replace("kernel", "weight")
        return Tensor(name, order=(1, 0) if path.endswith("kernel") else ())
    """
    return Tensor(path)


def load(source: str, steps: Steps, config: Config) -> tuple[TrainState, list[str]]:
    """Return (state of a new run, paths of what `source` has not and starts anew), for train.py.

    source: a file or folder, or an id of Hugging Face. It must have all parameters, and may lack what
    Net holds besides. Raises UserError that names what does not fit.
    """
    file = find(source)
    arrays = {name.replace(".", "/"): array for name, array in open_arrays(file).items()}
    there = {form for name in arrays for form in spellings(name, PREFIX)}
    table = {path: place(own, there) for path, own in own_paths(config.model).items()}
    for path in flatten(steps.state.variables):
        if table[path].name not in there:
            del table[path]
    table = part_tensors(table, APART)
    return start_from(Stored(file, arrays), table, steps, config, PREFIX, IGNORED)


def place(own: str, there: Container[str]) -> Tensor:
    """Return where the array at an own path is, in a file with these names."""
    tensor = Tensor(own) if own.replace(".", "/") in there else renamed(own)
    return replace(tensor, name=tensor.name.replace(".", "/"))


def tensors(config: NetConfig) -> dict[str, Tensor]:
    """Return path of an array as it is stored -> the tensor of `export` that it is, or is part of."""
    table = {path: Tensor(own.replace("/", ".")) for path, own in own_paths(config).items()}
    return part_tensors(table, APART)


def own_paths(config: NetConfig) -> dict[str, str]:
    """Return path of an array in model.py -> its path in Net."""
    _, params, _, variables = parts_of(lambda: NetModel(config, rngs=nnx.Rngs(0)))
    state = nnx.merge_state(params, variables)
    collections = {"/".join(path): collection(type(x)) for path, x in nnx.to_flat_state(state)}
    return {path: path.replace("net", name, 1) for path, name in collections.items()}
