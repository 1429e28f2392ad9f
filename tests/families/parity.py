"""A family's emitted model beside the PyTorch class of transformers, with the same random weights."""

import itertools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import transformers
from flax import nnx
from redco_runtime.base.tensors import Tensor, stored_there
from safetensors import safe_open

from redco_new.render.template import open_template
from redco_new.models.families import FAMILIES
from redco_new.models.adapter import family_tensors, linear_layers
from redco_new.render.execute import load_weights
from redco_new.models.find import Model, make_model
from redco_new.models.hf_config import config_class, read_transformers

torch.set_num_threads(1)  # its threads wait for each other longer than these sizes take

PACKAGE = "parity"
TOLERANCE = 1e-4


@dataclass
class Pair:
    """One model twice.

    model: as redco reads it.  module, weights: the emitted model.py and weights.py, imported.
    torch: the reference, in float32, every weight of it random.  params: the same by our paths, buffers too.
    """

    model: Model
    module: ModuleType
    weights: ModuleType
    torch: Any
    params: dict[str, Any]

    def config(self, **changes: Any) -> Any:
        """The emitted config, in float32."""
        return getattr(self.module, self.model.family.config_class)(
            **({"dtype": "float32"} | changes)
        )

    def merge(self, params: Any, **changes: Any) -> Any:
        """The emitted model with these parameters."""
        build = getattr(self.module, self.model.family.model_class)
        abstract = nnx.eval_shape(lambda: build(self.config(**changes), rngs=nnx.Rngs(0)))
        return nnx.merge(nnx.split(abstract)[0], jax.tree.map(jnp.asarray, params))

    @cached_property
    def ours(self) -> Any:
        """The emitted model in float32."""
        return self.merge(self.params)


def make_pair(
    name: str,
    seed: int = 0,
    shards: int = 1,
    finish: Callable[[Any], None] | None = None,
    **keys: Any,
) -> Pair:
    """Return a small model of a family.

    finish: changes PyTorch's model before its use.
    keys: keyword arguments of transformers' config class.
    """
    family = FAMILIES[name]
    theirs = config_class(family.model_type)(**keys)
    config = read_transformers(theirs, keys)
    model = make_model(family, "a small one", config, "bytes", shards)
    module, weights = emitted(model)
    reference = random_torch(getattr(transformers, family.architecture), theirs, seed)
    if finish:
        with torch.no_grad():
            finish(reference)
    return Pair(model, module, weights, reference, parameters(reference, module, weights, family))


def emitted(model: Model) -> tuple[ModuleType, ModuleType]:
    """model.py and weights.py of a project of `model`, imported."""
    with open_template() as template:
        return load_weights(PACKAGE, model.print_files(template, PACKAGE))


def linear(model: Model) -> dict[str, str]:
    """What --lora can adapt, but for kernels of experts."""
    return linear_layers(named(model))


def named(model: Model) -> dict[str, str]:
    """Path of a parameter -> the name of its tensor."""
    with open_template() as template:
        texts = model.print_files(template, PACKAGE)
    return family_tensors(model.family, PACKAGE, texts)


def random_torch(kind: Any, config: Any, seed: int, scale: float = 0.1) -> Any:
    """The PyTorch model with every weight random, biases and norms too. scale: of the noise."""
    torch.manual_seed(seed)
    config._attn_implementation = "eager"
    model = kind(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            centre = 1.0 if weight.ndim == 1 and bool((weight == 1).all()) else 0.0
            weight.copy_(centre + scale * torch.randn(weight.shape))
    return model


def parameters(reference: Any, module: ModuleType, weights: ModuleType, family: Any) -> Any:
    """What the reference saves, by our paths; every stored tensor is used or is in IGNORED."""
    config = getattr(module, family.config_class)(dtype="float32")
    build = getattr(module, family.model_class)
    abstract = nnx.eval_shape(lambda: build(config, rngs=nnx.Rngs(0)))
    shapes = nnx.to_pure_dict(nnx.split(abstract)[1])
    stored = saved(reference)
    leaves, tree = jax.tree.flatten_with_path(shapes)
    paths = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves]
    sizes = {path: leaf.shape for path, (_, leaf) in zip(paths, leaves, strict=True)}
    there = {name: value.shape for name, value in stored.items()}
    table, _ = stored_there(weights.tensors(config), there, sizes)
    assert sorted(paths) == sorted(table)
    found = [read(table[p], leaf.shape, stored) for p, (_, leaf) in zip(paths, leaves, strict=True)]
    for path, value, (_, leaf) in zip(paths, found, leaves, strict=True):
        assert value.shape == leaf.shape, path
    return jax.tree.unflatten(tree, found)


def saved(reference: Any) -> dict[str, np.ndarray]:
    """The tensors of the checkpoint that transformers writes of a model."""
    with tempfile.TemporaryDirectory() as folder:
        reference.save_pretrained(folder)
        with safe_open(Path(folder, "model.safetensors"), framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}


def read(tensor: Tensor, shape: tuple[int, ...], stored: dict[str, np.ndarray]) -> np.ndarray:
    """One parameter of the tensors that a checkpoint stores."""
    lead = shape[: tensor.name.count("{}")]
    parts = []
    for index in itertools.product(*map(range, lead)):
        value = stored[tensor.name.format(*index)]
        if tensor.part:
            dim, start, stop = tensor.part
            value = value.take(range(start, stop), axis=dim)
        parts.append(value.transpose(tensor.order) if tensor.order else value)
    return np.stack(parts).reshape(shape) if lead else parts[0]


def tokens(vocab_size: int, *shape: int, seed: int = 0) -> np.ndarray:
    """Random tokens, int32, none of them the first four."""
    return np.random.default_rng(seed).integers(4, vocab_size, shape, dtype=np.int32)


def logits(reference: Any, **inputs: np.ndarray) -> np.ndarray:
    """The reference's logits."""
    with torch.no_grad():
        given = {k: torch.tensor(np.asarray(v).astype(np.int64)) for k, v in inputs.items()}
        return reference(**given).logits.numpy()
