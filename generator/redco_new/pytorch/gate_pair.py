"""A class in PyTorch beside the printed one, of the same sizes and with the same weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import nnx
from torch import nn

from redco_new.own.quick_programs import compiled_once
from redco_new.pytorch.construct import construct
from redco_new.pytorch.draft import Draft
from redco_new.pytorch.dtypes import FIELD
from redco_new.pytorch.gate_examples import NORMED
from redco_new.pytorch.experts import by_checkpoint_names
from redco_new.pytorch.printed import Stored
from redco_new.pytorch.printed_class import Printed
from redco_new.pytorch.setting import Setting
from redco_new.pytorch.subject import Subject, Way
from redco_new.pytorch.texts import IDS, NAMES
from redco_new.pytorch.weights import find_stored, stack


@dataclass(frozen=True)
class Pair:
    """A class in PyTorch and as printed, with the same sizes.

    print_in: the printed model that computes in a dtype
    """

    torch: nn.Module
    printed: nnx.Module
    parameters: Mapping[str, Stored]
    buffers: Mapping[str, Stored]
    print_in: Callable[[str], nnx.Module]

    def bring_weights(self) -> None:
        """Give the printed model the weights of the class in PyTorch."""
        stored = {**self.parameters, **self.buffers}
        weights = by_checkpoint_names(self.torch, self.torch.state_dict())
        state = nnx.state(self.printed)
        for path, leaf in nnx.to_flat_state(state):
            key = "/".join(map(str, path))
            if key in stored:
                leaf.set_value(jnp.asarray(stack(weights, stored[key], leaf.shape)))
        nnx.update(self.printed, state)


def make_pair(draft: Draft, module: nn.Module, text: str) -> Pair:
    """Return a class and the model that `text` prints, with where the one stores what the other holds."""
    copies, model = draft.classes.probes[0].traced.copies, draft.model(text)
    stored = find_stored(module, _shapes(model), draft.classes.stacked, draft.orders, copies)
    has_dtype = any(f.name == FIELD for f in draft.fields)

    def print_in(dtype: str) -> nnx.Module:
        return draft.model(text, **({FIELD: dtype} if has_dtype else {}))

    return Pair(module, model, *stored, print_in)


@contextmanager
def in_float64(pair: Pair) -> Iterator[Pair]:
    """Make a class and the printed model compute in float64: what they differ by there is no rounding."""
    # Products of float64 are loops of XLA's own, which are as fast as it makes them.
    with jax.enable_x64(True), compiled_once(quickly=False):
        module = copy.deepcopy(pair.torch).double()
        double = replace(pair, torch=module, printed=pair.print_in("float64"))
        double.bring_weights()
        yield double


def as_float64(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays of fewer examples, since products take ten times as long, and of numbers in float64."""
    few = {name: x[: NORMED // 2] for name, x in arrays.items()}
    return {k: x.astype(np.float64) if x.dtype == np.float32 else x for k, x in few.items()}


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
