"""A module of the user's own class, made, and what a call of it gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen, nnx
from jax.tree_util import GetAttrKey, KeyEntry, tree_leaves_with_path

from redco_new.own.call import Call
from redco_new.own.maker import Maker
from redco_new.own.signature import MODES

Path = tuple[KeyEntry, ...]  # of an array, in what a call gives


def make_module(maker: Maker, call: Call, mode: str) -> nnx.Module:
    """Return a module, made anew; one of Linen as an NNX module, as model.py of a project has it."""
    module = maker.make()
    if not isinstance(module, linen.Module):
        return module
    zeros = {name: jnp.zeros((1, *x.shape), x.dtype) for name, x in call.inputs.items()}
    arguments = call.fill(zeros) | mode_argument(mode, False)
    return nnx.bridge.ToNNX(module, rngs=nnx.Rngs(0)).lazy_init(**arguments, method=call.method)


def outputs_of(
    model: nnx.Module,
    call: Call,
    mode: str,
    training: bool,
    batch: Mapping[str, Any],
    more: dict[str, Any],
) -> dict[Path, jax.Array]:
    """Return what a call gives, in training or in evaluation. more: arguments beside those of the call"""
    model.train() if training else model.eval()
    arguments = call.fill(batch) | mode_argument(mode, training) | more
    return dict(_read_arrays(getattr(model, call.method)(**arguments)))


def _read_arrays(value: Any, path: Path = ()) -> Iterator[tuple[Path, jax.Array]]:
    """Yield (path, array) of what a call gives: in trees of JAX, and in dataclasses."""
    for keys, leaf in tree_leaves_with_path(value):
        if isinstance(leaf, jax.Array):
            yield path + keys, leaf
        elif dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            for field in dataclasses.fields(leaf):
                part = getattr(leaf, field.name, None)
                yield from _read_arrays(part, (*path, *keys, GetAttrKey(field.name)))


def mode_argument(mode: str, training: bool) -> dict[str, bool]:
    """Return the argument of a call that says whether it trains; none where it has no mode."""
    return {mode: MODES[mode] == training} if mode else {}
