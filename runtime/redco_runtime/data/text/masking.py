"""Tokens that a model is asked for: masked language modelling."""

from typing import Any

import numpy as np

NOT_ASKED = -1  # label of a token that the model is not asked for
HIDDEN, SWAPPED = 0.8, 0.1  # shares: replaced by the mask, by any token; the others are kept


def mask_tokens(
    ids: np.ndarray, tokenizer: Any, share: float, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return ids (N,) as the model sees them, and labels (N,). random: as of `example_random`.

    Devlin et al. 2019, section 3.1, but for the count: `share` of the ids, rounded, and one at least.
    """
    draw = random.bit_generator.random_raw
    chosen = np.argsort(draw(len(ids)))[: max(1, round(share * len(ids)))]
    place, others = draw(len(chosen)) / 2**64, draw(len(chosen)) % len(tokenizer)
    labels, shown = np.full(len(ids), NOT_ASKED, np.int32), ids.copy()
    labels[chosen] = ids[chosen]
    swapped = np.where(place < HIDDEN + SWAPPED, others, ids[chosen])
    shown[chosen] = np.where(place < HIDDEN, tokenizer.mask_token_id, swapped)
    return shown, labels
