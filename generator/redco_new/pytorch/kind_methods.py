"""The methods of a class that writes no texts in model.py, as recipes call them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from redco_new.pytorch.kinds import IMAGES, Kind
from redco_new.pytorch.text_methods import CHECK

WORDS = '''
    def __call__(self, input_ids_BS: jax.Array, mask_BS: jax.Array) -> jax.Array:
        """Return logits_BSV of the token at each position."""
        return self.logits(self.hidden(input_ids_BS, mask_BS))

    def hidden(self, input_ids_BS: jax.Array, mask_BS: jax.Array) -> jax.Array:
        """Return x_BSD, hidden states that `logits` reads. mask_BS is true for tokens, false for padding."""
{check}{run}

    def logits(self, x_BSD: jax.Array) -> jax.Array:
        """Return logits_BSV of hidden states."""
{logits}
'''
PICTURES = '''
    def __call__(self, pixels_BHWC: jax.Array) -> jax.Array:
        """Return logits_BC of images."""
        pixel_values = pixels_BHWC.transpose(0, 3, 1, 2)  # as PyTorch has them
{run}
'''


@dataclass(frozen=True)
class KindMethods:
    """What model.py has of a class, besides the statements that compute its hidden states, or its logits.

    kind: what it is for
    logits: the statements of `logits`, of hidden states; () where these are not apart
    longest: the field of the config that no text is longer than, by `first` positions; "" for none
    first: the position of a text's first token
    """

    kind: Kind
    logits: Sequence[ast.stmt] = ()
    longest: str = ""
    first: int = 0

    def print(self, logits: str, run: str) -> str:
        """Return the methods. logits, run: the statements of these two, indented."""
        if self.kind is IMAGES:
            return PICTURES.format(run=run)
        less = f" - {self.first}" if self.first else ""
        length = "        S = input_ids_BS.shape[1]\n"
        check = length + CHECK.format(longest=self.longest, less=less) if self.longest else ""
        return WORDS.format(check=check, run=run, logits=logits)
