"""A class in PyTorch beside the printed one, of the same sizes and with the same weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import torch
from flax import nnx
from torch import nn

from redco_new.pytorch.construct import construct
from redco_new.pytorch.draft import Draft
from redco_new.pytorch.experts import by_checkpoint_names
from redco_new.pytorch.printed import Stored
from redco_new.pytorch.printed_class import Printed
from redco_new.pytorch.setting import Setting
from redco_new.pytorch.subject import Subject, Way
from redco_new.pytorch.texts import IDS, NAMES
from redco_new.pytorch.weights import find_stored, stack


@dataclass(frozen=True)
class Pair:
    """A class in PyTorch and as printed, with the same sizes."""

    torch: nn.Module
    printed: nnx.Module
    parameters: Mapping[str, Stored]
    buffers: Mapping[str, Stored]

    def bring_weights(self) -> None:
        """Give the printed model the weights of the class in PyTorch."""
        stored = {**self.parameters, **self.buffers}
        weights = by_checkpoint_names(self.torch, self.torch.state_dict())
        state = nnx.state(self.printed)
        for path, leaf in nnx.to_flat_state(state):
            key = "/".join(map(str, path))
            if key in stored:
                leaf[...] = jnp.asarray(stack(weights, stored[key], leaf.shape))
        nnx.update(self.printed, state)


def make_pair(draft: Draft, module: nn.Module, model: nnx.Module) -> Pair:
    """Return a class and the printed model, with where the one stores what the other holds."""
    copies = draft.classes.probes[0].traced.copies
    return Pair(
        module,
        model,
        *find_stored(module, _shapes(model), draft.classes.stacked, draft.orders, copies),
    )


def with_weights(subject: Subject, setting: Setting, number: int = 0) -> nn.Module:
    """Return the class at some sizes, with weights that are the same for each number."""
    with torch.random.fork_rng():
        torch.manual_seed(number)
        return construct(lambda: subject.make_plain(setting.arguments), "cpu").module


def input_names(whole: Printed, way: Way) -> dict[str, str]:
    """Return inputs of the printed class -> of the class in PyTorch."""
    if way.kind:
        return {printed: theirs for theirs, printed in way.kind.inputs.items()}
    return {NAMES[IDS]: IDS} if whole.methods else {name: name for name in whole.inputs}


def printed_arrays(
    arrays: Mapping[str, np.ndarray], names: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Return arrays by the names that the printed model has for them; images have their channels last there.

    One that the class does not take, as a mask, is of ones.
    """
    first = next(iter(arrays.values()))
    own = {k: arrays[x] if x in arrays else np.ones(first.shape, bool) for k, x in names.items()}
    return {k: np.moveaxis(x, 1, -1) if k.endswith("_BHWC") else x for k, x in own.items()}


def _shapes(model: nnx.Module) -> dict[str, tuple[int, ...]]:
    """Return the arrays that a model holds: path -> shape; not the keys of random numbers."""
    state = nnx.to_flat_state(nnx.state(model, nnx.Not(nnx.RngState)))
    return {"/".join(map(str, path)): tuple(leaf.shape) for path, leaf in state}
