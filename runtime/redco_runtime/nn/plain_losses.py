"""Losses of outputs that are whole in memory: of classes, whose labels may be smoothed.

Shape letters: B batch, S sequence, C classes; of logits of tokens, P positions and V vocab.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from ..base.messages import UserError


@dataclass
class Smoothing:
    """The share of all labels that is learned alike, and whether a loss has asked for it."""

    share: float
    used: bool = False


SMOOTHING: ContextVar[Smoothing | None] = ContextVar("SMOOTHING", default=None)


@contextmanager
def smooth_labels(share: float) -> Iterator[None]:
    """Make `cross_entropy` and `class_losses` learn, in what is traced in it, `share` of all labels alike, the rest of the label.

    As label_smoothing_factor of transformers' Trainer (Szegedy et al. 2016). Raises UserError where neither is called.
    """
    smoothing = Smoothing(share)
    token = SMOOTHING.set(smoothing)
    try:
        yield
    finally:
        SMOOTHING.reset(token)
    if share and not smoothing.used:
        raise UserError(
            f"--label-smoothing: {share}, and loss() in pipeline.py smooths no label: let it call cross_entropy or class_losses "
            "of nn/losses.py, or leave it out"
        )


def class_losses(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the cross-entropy of each label in nats, of logits (B, C) or (B, S, C): labels' shape, float32.

    It compares labels and picks no elements by index, so that XLA can split it over any mesh. That of a label
    outside [0, C) is NaN, which ends a run, unless it is weighted by 0.
    """
    share, flat = smoothing_here(), logits.ndim == 2
    losses = nats(logits[None], labels[None], share)[0] if flat else nats(logits, labels, share)
    return jnp.where((labels >= 0) & (labels < logits.shape[-1]), losses, jnp.nan)


def smoothing_here() -> float:
    """Return the share of all labels that is learned alike here."""
    if (smoothing := SMOOTHING.get()) is None:
        return 0.0
    smoothing.used = True
    return smoothing.share


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def nats(logits_BPV: jax.Array, labels_BP: jax.Array, share: float) -> jax.Array:
    """Return the cross-entropy of each token, float32. share: of all labels alike, as of `smooth_labels`."""
    return _nats_and_saved(logits_BPV, labels_BP, share)[0]


def _nats_and_saved(
    logits_BPV: jax.Array, labels_BP: jax.Array, share: float
) -> tuple[jax.Array, tuple]:
    """Return losses_BP, and for the backward pass the logits as they are and a number of each token."""
    float_BPV = logits_BPV.astype(jnp.float32)
    picked_BP = jnp.where(_is_label(logits_BPV, labels_BP), float_BPV, 0.0).sum(axis=-1)
    log_sum_BP = jax.nn.logsumexp(float_BPV, axis=-1)
    wanted_BP = picked_BP
    if share:
        wanted_BP = (1 - share) * picked_BP + share * float_BPV.mean(axis=-1)
    return log_sum_BP - wanted_BP, (logits_BPV, labels_BP, log_sum_BP)


def _pull_nats(share: float, saved: tuple, g_BP: jax.Array) -> tuple[jax.Array, None]:
    logits_BPV, labels_BP, log_sum_BP = saved
    got_BPV = jnp.exp(logits_BPV.astype(jnp.float32) - log_sum_BP[..., None])
    wanted_BPV = _is_label(logits_BPV, labels_BP)
    if share:
        wanted_BPV = (1 - share) * wanted_BPV + share / logits_BPV.shape[-1]
    grads_BPV = g_BP[..., None] * (got_BPV - wanted_BPV)
    return grads_BPV.astype(logits_BPV.dtype), None


nats.defvjp(_nats_and_saved, _pull_nats)


def _is_label(logits_BPV: jax.Array, labels_BP: jax.Array) -> jax.Array:
    """Return where the label of each token is: a comparison, not a gather: each device needs its own part of V only."""
    vocab_11V = jnp.arange(logits_BPV.shape[-1])[None, None, :]
    return vocab_11V == labels_BP[..., None]
