"""Dropout that follows from the step and from an example's place in the batch, and from nothing else.

Each example has a key of its own, which goes wherever its row goes: the mesh, micro-batches and what is
computed again in the backward pass change no mask. (jax.random gives the same bits however its result is laid
out: jax_threefry_partitionable, which JAX has on.)

Shape letters: B examples, R rows of a model's input, L layers; others as in attention.py.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from ..base.messages import UserError
from ..base.state import PyTree
from ..layout.activations import lay_out
from ..layout.mesh import platform
from . import attention as plain
from .kernels import KERNELS, SAVED_AS


class Keyed(NamedTuple):
    """A batch, and the data of the key of each of its examples, uint32."""

    batch: PyTree
    keys_BK: jax.Array


def with_keys(batch: PyTree, key: jax.Array) -> Keyed:
    """Return a batch whose examples have a key each: they follow from `key`, that of the step, and their places."""
    count = jax.tree.leaves(batch)[0].shape[0]
    return Keyed(batch, jax.random.key_data(jax.random.split(key, count)))


def drop_by_example(model: nnx.Module, batch: PyTree, key: jax.Array) -> PyTree:
    """Return the batch as it is without keys, and have each Dropout of `model` drop by these.

    A batch that has none gets them of `key`.
    """
    batch, keys_BK = batch if isinstance(batch, Keyed) else with_keys(batch, key)
    keys_B = jax.random.wrap_key_data(keys_BK)
    for number, one in enumerate(_dropouts(model)):
        layers = one.rngs.key.shape  # (L,) of a stack, () of one
        own_B = jax.vmap(lambda key, number=number: jax.random.fold_in(key, number))(keys_B)
        own_BL = jax.vmap(lambda key, layers=layers: jax.random.split(key, layers))(own_B)
        one.rngs = nnx.RngStream(jnp.moveaxis(own_BL, 0, -1) if layers else own_B, tag="dropout")
    return batch


def _dropouts(model: nnx.Module) -> Iterator[Any]:
    return (one for _, one in nnx.iter_modules(model) if isinstance(one, Dropout))


class Dropout(nnx.Dropout):
    """nnx.Dropout, which drops of each example by its own key where a step has given keys."""

    @property
    def drops(self) -> bool:
        """Whether it does anything: in training, at a rate above 0."""
        return self.rate > 0 and not self.deterministic

    def __call__(self, x_R: jax.Array) -> jax.Array:  # type: ignore[override]
        """Return x_R (R, ...), some of it 0, and the rest as much larger. R is B, or several rows an example.

        Raises UserError for other rows.
        """
        if not self.drops or not self.rngs.key.ndim:
            return super().__call__(x_R)
        share, keys_R = 1 - self.rate, self.keys(x_R.shape[0])
        kept_R = jax.vmap(lambda key: jax.random.bernoulli(key, share, x_R.shape[1:]))(keys_R)
        return jnp.where(kept_R, x_R / share, 0)

    def keys(self, count: int) -> jax.Array:
        """Return the keys (R,) of `count` rows, where a step has given one for each example. Raises UserError."""
        stream: Any = self.rngs
        keys_B = jax.vmap(jax.random.fold_in)(stream.key[...], stream.count[...])
        stream.count[...] += 1
        rows, left = divmod(count, keys_B.size)
        if left:
            raise UserError(
                f"dropout: {count} rows of a batch of {keys_B.size}: give the model as many rows of each example"
            )
        keys_R = keys_B if rows == 1 else jax.vmap(lambda k: jax.random.split(k, rows))(keys_B)
        return keys_R.reshape(-1)


@plain.by_heads
def attention(
    q_BSNH: jax.Array,
    k_BTNH: jax.Array,
    v_BTNH: jax.Array,
    *,
    drop: Dropout | None = None,
    **options: Any,
) -> jax.Array:
    """Return o_BSNH as nn.attention.attention does, whose weights `drop` drops.

    No kernel does that: all S x T weights lie in memory then, one layer's at a time, which is said once.
    options: of that function; where weights are dropped causal, window, mask_BT, segments_BS, bias_1NST and scale,
    and layout, which kernels alone ask for.
    """
    if drop is None or not drop.drops:
        return plain.attention(q_BSNH, k_BTNH, v_BTNH, **options)
    if kernel := KERNELS.get(platform()):
        plain.say(
            f"attention: XLA's, slower than {kernel.title}, which does not do this: dropout of weights; a rate of 0 "
            f"gives the kernel back"
        )
    options.pop("layout", None)
    return _dropped(q_BSNH, k_BTNH, v_BTNH, drop, **options)


def _dropped(
    q_BSNH: jax.Array,
    k_BTKH: jax.Array,
    v_BTKH: jax.Array,
    drop: Dropout,
    *,
    causal: bool = False,
    window: int | None = None,
    mask_BT: jax.Array | None = None,
    segments_BS: jax.Array | None = None,
    bias_1NST: jax.Array | None = None,
    scale: float | None = None,
) -> jax.Array:
    """Return o_BSNH by the formula; scores are float32."""
    S, T, H = q_BSNH.shape[1], k_BTKH.shape[1], q_BSNH.shape[-1]
    queries = q_BSNH.shape[2] // k_BTKH.shape[2]  # of a head of keys and values
    arrays_BTKH = (k_BTKH, v_BTKH)
    k_BTNH, v_BTNH = (jnp.repeat(x, queries, 2) if queries > 1 else x for x in arrays_BTKH)
    rule = plain.Rule(causal, window, None, H**-0.5 if scale is None else scale)
    options = {"mask_BT": mask_BT, "segments_BS": segments_BS}
    arrays = {name: x for name, x in options.items() if x is not None}
    mask_B1ST = plain.seen(rule, 0, S, T, segments_BS, arrays)
    scores_BNST = rule.scale * jnp.einsum(
        "bsnh,btnh->bnst", q_BSNH, k_BTNH, preferred_element_type=jnp.float32
    )
    if bias_1NST is not None:
        scores_BNST += bias_1NST
    if mask_B1ST is not None:
        scores_BNST = jnp.where(mask_B1ST, scores_BNST, jnp.finfo(jnp.float32).min)
    weights_BNST = drop(jax.nn.softmax(scores_BNST).astype(v_BTNH.dtype))
    return lay_out(jnp.einsum("bnst,btnh->bsnh", weights_BNST, v_BTNH), SAVED_AS)
