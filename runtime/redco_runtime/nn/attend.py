"""What a model's layers attend by, handed on to each of them: to the texts of a batch, or to a cache.

Both are called with the queries, keys and values of a layer, and run its layers. The model's own code is the
same for training and for writing texts, token by token.

Shape letters: B batch, S tokens, T slots of the cache, N heads, K key/value heads, H head dim, L calls.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from . import attention as plain
from .dropout import attention
from .decoding import each_layer
from .layers import Run, over_layers

Cache = dict[str, jax.Array]


class ToTexts:
    """Each token attends to those of its own text, up to itself.

    segments_BS: which of the texts packed in its row a token is of; None where a row is one text.
    """

    def __init__(self, segments_BS: jax.Array | None = None) -> None:
        self._segments_BS = segments_BS

    def __call__(
        self, q_BSNH: jax.Array, k_BSKH: jax.Array, v_BSKH: jax.Array, **options: Any
    ) -> jax.Array:
        """Return o_BSNH. options: of nn.attention.attention; `drop`, a Dropout of its weights."""
        arrays = q_BSNH, k_BSKH, _as_wide(v_BSKH, q_BSNH)
        o_BSNH = attention(*arrays, causal=True, segments_BS=self._segments_BS, **options)
        return o_BSNH[..., : v_BSKH.shape[-1]]

    def over_layers(self, remat: str, **kinds: Any) -> Callable[[Run], Run]:
        """Return a decorator: of run(layer, x, attend) -> x it makes run(layers, x), of all layers, stacked.

        kinds: whether layers have `experts`, or are `capped`, as nn.layers.over_layers has it.
        """

        def decorate(run: Run) -> Run:
            return over_layers(remat, **kinds)(lambda layer, x: run(layer, x, self))

        return decorate


class ToCache:
    """New tokens take the slots `index` to `index + S - 1` of a cache, and attend to those up to their own.

    cache: as `empty_cache` makes it, with a layer for each call. mask_BT: the slots that are seen, on either
    side of padding. place: of the next call. The cache after all calls is in `cache`.
    """

    def __init__(self, cache: Cache, index: Any, mask_BT: jax.Array, place: Any = 0) -> None:
        self.cache = cache
        self._index, self._mask_BT, self._place = index, mask_BT, place

    def __call__(
        self,
        q_BSNH: jax.Array,
        k_BSKH: jax.Array,
        v_BSKH: jax.Array,
        *,
        drop: Any = None,
        **options: Any,
    ) -> jax.Array:
        """Return o_BSNH; keys and values go into the cache. Nothing is dropped: no text is written in training."""
        start = (self._place, 0, self._index, 0, 0)
        self.cache = {
            name: jax.lax.dynamic_update_slice(
                self.cache[name], x[None].astype(self.cache[name].dtype), start
            )
            for name, x in (("k", k_BSKH), ("v", v_BSKH))
        }
        k_BTKH, v_BTKH = (self.cache[name][self._place] for name in ("k", "v"))
        self._place += 1
        options |= {"causal": True, "start": self._index, "mask_BT": self._mask_BT}
        o_BSNH = plain.attention(q_BSNH, k_BTKH, _as_wide(v_BTKH, q_BSNH), **options)
        return o_BSNH[..., : v_BSKH.shape[-1]]

    def over_layers(self, remat: str, **kinds: Any) -> Callable[[Run], Run]:
        """Return the same decorator, of a loop that hands the cache on from layer to layer."""

        def decorate(run: Run) -> Run:
            def through(layers: nnx.Module, x: jax.Array) -> jax.Array:
                @each_layer
                def one(layer: Any, carry: Any, i: jax.Array) -> Any:
                    x, cache, place = carry
                    attend = ToCache(cache, self._index, self._mask_BT, place)
                    x = run(layer, x, attend)
                    return x, attend.cache, attend._place

                carry = (x, self.cache, jnp.asarray(self._place))
                x, self.cache, self._place = one(layers, carry)
                return x

            return through

        return decorate


def empty_cache(
    calls: int, batch: int, length: int, key: tuple[int, int], value: tuple[int, int], dtype: Any
) -> Cache:
    """Return a cache of `length` slots: keys "k", values "v", each (L, B, T, K, H). key, value: their K and H."""
    shape = (calls, batch, length)
    return {"k": jnp.zeros((*shape, *key), dtype), "v": jnp.zeros((*shape, *value), dtype)}


def _as_wide(v_BTKH: jax.Array, q_BSNH: jax.Array) -> jax.Array:
    """Return values with zeros, up to the width of the queries, which kernels ask for."""
    missing = q_BSNH.shape[-1] - v_BTKH.shape[-1]
    return jnp.pad(v_BTKH, ((0, 0), (0, 0), (0, 0), (0, missing))) if missing else v_BTKH
