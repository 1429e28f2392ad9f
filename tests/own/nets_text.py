"""Language models as users write them, with the inputs and the outputs that theirs have."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import struct

HIDDEN = 24  # as many rows as inputs of some tests have dims: no other number is


@struct.dataclass
class Answer:
    """What a model of Hugging Face gives, with what it keeps for the next call."""

    logits: jax.Array
    hidden: jax.Array
    cache: Any = None
    loss: Any = None


class Chat(nn.Module):
    """A decoder that is told what counts and where each id stands: an Answer."""

    words: int
    width: int = HIDDEN
    positions: int = 64

    @nn.compact
    def __call__(self, input_ids, attention_mask, position_ids, token_type_ids):
        embed = nn.Embed(self.words, self.width)
        x = embed(input_ids) + nn.Embed(2, self.width)(token_type_ids)
        x += nn.Embed(self.positions, self.width)(position_ids)
        mask = nn.combine_masks(
            nn.make_causal_mask(input_ids), attention_mask[:, None, None, :] > 0
        )
        x += nn.MultiHeadDotProductAttention(2)(nn.LayerNorm()(x), mask=mask)
        cache = {"key": x[:, :, None, :8], "length": jnp.zeros(8)}
        return Answer(embed.attend(x), x, (cache, cache), x.mean())


def chat():
    """The arguments of Chat, and a batch of zeros."""
    zeros = np.zeros((1, 12), np.int32)
    names = ("input_ids", "attention_mask", "position_ids", "token_type_ids")
    return {"words": 40}, dict.fromkeys(names, zeros)


class Scores(NamedTuple):
    """The next ids, the hidden states, and the load of experts: no name says which is which."""

    states: jax.Array
    scores: jax.Array
    load: jax.Array


class Turned(nn.Module):
    """A model that is rotated by position, with a mask of what is hidden: Scores."""

    words: int
    width: int = HIDDEN

    @nn.compact
    def __call__(self, ids, hidden, positions):
        x = nn.Embed(self.words, self.width)(ids)
        angles = positions[..., None] / 1e4 ** (jnp.arange(self.width) / self.width)
        x = x * jnp.cos(angles) + jnp.roll(x, 1, -1) * jnp.sin(angles)
        bias = hidden[:, None, :] * jnp.finfo(x.dtype).min
        x += nn.softmax(x @ x.swapaxes(1, 2) + bias) @ nn.Dense(self.width)(x)
        return Scores(x, nn.Dense(self.words)(x), jnp.zeros((8, 12, 3)))


def turned():
    """The arguments of Turned, and a batch in which the last two are padding."""
    hidden = np.array([[0] * 10 + [1] * 2], np.float32)
    arrays = {"ids": np.zeros((1, 12), np.int32), "hidden": hidden}
    return {"words": 40}, arrays | {"positions": np.arange(3, 15, dtype=np.int32)[None]}
