"""The methods of a class that writes no texts in model.py, as recipes call them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from redco_new.pytorch.kinds import IMAGES, PAIRS, Kind
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
PAIR = '''
    def __call__(
        self, input_ids_BS: jax.Array, mask_BS: jax.Array, decoder_ids_BT: jax.Array
    ) -> jax.Array:
        """Return logits_BTV of the token after each position of a target."""
        x_BSD = self.encode(input_ids_BS, mask_BS)
        return self.logits(self.hidden(decoder_ids_BT, x_BSD, mask_BS))

    def encode(self, input_ids_BS: jax.Array, mask_BS: jax.Array) -> jax.Array:
        """Return x_BSD, hidden states of sources. mask_BS is true for tokens, false for padding."""
{check}{source}

    def hidden(
        self, decoder_ids_BT: jax.Array, x_BSD: jax.Array, mask_BS: jax.Array
    ) -> jax.Array:
        """Return y_BTD, hidden states of targets, which `logits` reads. x_BSD: of their sources."""
{check_target}{run}

    def logits(self, y_BTD: jax.Array) -> jax.Array:
        """Return logits_BTV of hidden states."""
{logits}

    def init_cache(self, x_BSD: jax.Array, length: int) -> dict[str, jax.Array]:
        """Return no cache but the targets themselves, of at most `length` tokens: each is computed anew, token by token."""
        return empty_targets(x_BSD, length)

    def decode(self, decoder_ids_BT, mask_BS, cache, index):
        """Return (y_BTD, cache) for T new tokens, which take the slots from `index` on, by the whole targets."""
        return decode_targets(self.hidden, decoder_ids_BT, mask_BS, cache, index)
'''


@dataclass(frozen=True)
class KindMethods:
    """What model.py has of a class, besides the statements that compute its hidden states, or its logits.

    kind: what it is for
    logits: the statements of `logits`, of hidden states; () where these are not apart
    source: the statements of `encode`, of an encoder-decoder
    longest: the field of the config that no text is longer than, by `first` positions; "" for none
    first: the position of a text's first token
    """

    kind: Kind
    logits: Sequence[ast.stmt] = ()
    source: Sequence[ast.stmt] = ()
    longest: str = ""
    first: int = 0

    @property
    def imports(self) -> set[str]:
        """The import lines that these methods need."""
        names = ("decode_targets", "empty_targets") if self.kind is PAIRS else ()
        return {f"from redco_runtime.nn.anew_targets import {name}" for name in names}

    def print(self, logits: str, run: str, source: str) -> str:
        """Return the methods. logits, run, source: the statements of these, indented."""
        if self.kind is IMAGES:
            return PICTURES.format(run=run)
        less = f" - {self.first}" if self.first else ""
        length = "        S = input_ids_BS.shape[1]\n"
        check = length + CHECK.format(longest=self.longest, less=less) if self.longest else ""
        if self.kind is PAIRS:
            target = check.replace("input_ids_BS", "decoder_ids_BT")
            target = target.replace("S >", "T >").replace("{S}", "{T}").replace("S =", "T =")
            parts = {"source": source, "run": run, "logits": logits}
            return PAIR.format(check=check, check_target=target, **parts)
        return WORDS.format(check=check, run=run, logits=logits)
