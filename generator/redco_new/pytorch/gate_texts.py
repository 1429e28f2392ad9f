"""What recipes ask of a decoder, measured: texts that share a row, and texts that are written token by token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from redco_new.own.quick_programs import jit_quickly
from redco_new.pytorch.gate import MOST


def shares_rows(model: Any, ids: np.ndarray) -> bool:
    """Return whether texts that share a row are as each alone: then a model mixes positions by attention only.

    ids: of texts, at least two, (B, S)
    """
    first = _first(ids.shape[1])
    segments = np.where(np.arange(ids.shape[1]) < first, 1, 2)[None].repeat(len(ids), 0)
    together = _hidden(model, ids, segments)
    alone = [_hidden(model, part) for part in (ids[:, :first], ids[:, first:])]
    return _are_near(together, np.concatenate(alone, axis=1))


def writes_texts(model: Any, ids: np.ndarray) -> bool:
    """Return whether `decode` gives what `hidden` gives of whole texts, in rows that are padded on the left."""
    model.eval()
    rows, length = ids.shape
    pad = _first(length)
    mask = np.ones((rows, length), bool)
    mask[1, :pad] = False
    positions = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
    cache, ends, outputs = model.init_cache(rows, length), (0, length - 2, length - 1, length), []
    for start, end in zip(ends, ends[1:], strict=False):
        new = (jnp.asarray(x[:, start:end]) for x in (ids, positions))
        read = _decode if start else _prefill  # as generate.py has it
        x, cache = read(model, *new, jnp.asarray(mask), cache, jnp.int32(start))
        outputs.append(np.asarray(x))
    written = np.concatenate(outputs, axis=1)
    wholes = _hidden(model, ids), _hidden(model, ids[:, pad:])
    return _are_near(written[0], wholes[0][0]) and _are_near(written[1, pad:], wholes[1][1])


def writes_targets(model: Any, arrays: Mapping[str, np.ndarray]) -> bool:
    """Return whether `decode` of an encoder-decoder gives, token by token, what `hidden` gives of whole targets.

    arrays: of its call
    """
    model.eval()
    ids, mask = (jnp.asarray(arrays[name]) for name in ("decoder_ids_BT", "mask_BS"))
    x_BSD = _encode(model, jnp.asarray(arrays["input_ids_BS"]), mask)
    whole = _hide(model, ids, x_BSD, mask)
    cache, outputs = model.init_cache(x_BSD, ids.shape[1]), []
    for i in range(ids.shape[1]):
        y_BTD, cache = _decode(model, ids[:, i : i + 1], mask, cache, i)
        outputs.append(np.asarray(y_BTD))
    return _are_near(np.concatenate(outputs, axis=1), np.asarray(whole))


def _hidden(model: Any, ids: np.ndarray, segments: np.ndarray | None = None) -> np.ndarray:
    model.eval()
    arrays = [jnp.asarray(ids), *([] if segments is None else [jnp.asarray(segments)])]
    return np.asarray(_hide(model, *arrays))


def _compiled(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a model, compiled once for arrays of a shape."""

    @partial(jit_quickly, static_argnums=0)
    def run(graph: Any, state: Any, *arrays: Any) -> Any:
        return method(nnx.merge(graph, state, copy=True), *arrays)

    return lambda model, *arrays: run(*nnx.split(model), *arrays)


_encode = _compiled(lambda model, *x: model.encode(*x))
_hide = _compiled(lambda model, *x: model.hidden(*x))
_decode = _compiled(lambda model, *x: model.decode(*x))
_prefill = _compiled(lambda model, *x: model.decode(*x[:-1], 0))


def _first(length: int) -> int:
    """Return how many tokens of a text are one of two that share its row, or padding."""
    return length // 3


def _are_near(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.abs(one - other).max() <= MOST * np.abs(other).max())
