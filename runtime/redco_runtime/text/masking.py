"""Tokens that a model is asked for: masked language modelling."""

from typing import Any

import numpy as np

NOT_ASKED = -1  # label of a token that the model is not asked for
HIDDEN, SWAPPED = 0.8, 0.1  # shares: replaced by the mask, by any token; the others are kept


def mask_tokens(
    ids: np.ndarray, tokenizer: Any, share: float, seed: int, index: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return ids (N,) as the model sees them, and labels (N,): the same for the same seed and index.

    Devlin et al. 2019, section 3.1, but for the count: `share` of the ids, rounded, and one at least.
    """
    # NumPy keeps the raw words of Philox for ever; a Generator's methods may change by release.
    random = np.random.Philox(key=np.array([seed % 2**64, index], np.uint64))
    chosen = np.argsort(random.random_raw(len(ids)))[: max(1, round(share * len(ids)))]
    place = random.random_raw(len(chosen)) / 2**64
    others = random.random_raw(len(chosen)) % len(tokenizer)
    labels, shown = np.full(len(ids), NOT_ASKED, np.int32), ids.copy()
    labels[chosen] = ids[chosen]
    swapped = np.where(place < HIDDEN + SWAPPED, others, ids[chosen])
    shown[chosen] = np.where(place < HIDDEN, tokenizer.mask_token_id, swapped)
    return shown, labels
