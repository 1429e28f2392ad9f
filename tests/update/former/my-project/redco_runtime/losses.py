"""Losses that fit in memory.

Shape letters: B batch, S sequence, D model, V vocab, C chunks, P positions of a chunk.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp


def cross_entropy(
    logits_fn: Callable[[jax.Array], jax.Array],
    x_BSD: jax.Array,
    labels_BS: jax.Array,
    chunk: int = 512,
) -> jax.Array:
    """Cross-entropy of each token in nats: losses_BS, float32.

    `logits_fn` turns hidden states (B, P, D) into logits (B, P, V). It is called on at most `chunk`
    positions at a time, and again in the backward pass, so that the logits of all S positions never
    exist at once. S need not be a multiple of `chunk`. A label outside [0, V) picks no logit: its
    loss is the log of the partition function, to be weighted by 0.
    """
    B, S, D = x_BSD.shape
    num_chunks = -(-S // chunk)
    size = -(-S // num_chunks)  # equal chunks: less padding than full ones and a rest
    padding = num_chunks * size - S
    x_BSD = jnp.pad(x_BSD, ((0, 0), (0, padding), (0, 0)))
    labels_BS = jnp.pad(labels_BS, ((0, 0), (0, padding)))
    x_CBPD = x_BSD.reshape(B, num_chunks, size, D).swapaxes(0, 1)
    labels_CBP = labels_BS.reshape(B, num_chunks, size).swapaxes(0, 1)

    def step(_, chunk):
        x_BPD, labels_BP = chunk
        logits_BPV = logits_fn(x_BPD).astype(jnp.float32)
        # A comparison and a sum, not a gather: each device then needs its own part of V only.
        vocab_11V = jnp.arange(logits_BPV.shape[-1])[None, None, :]
        picked_BP = jnp.where(vocab_11V == labels_BP[..., None], logits_BPV, 0.0).sum(axis=-1)
        return None, jax.nn.logsumexp(logits_BPV, axis=-1) - picked_BP

    step = jax.checkpoint(step, prevent_cse=False)
    _, losses_CBP = jax.lax.scan(step, None, (x_CBPD, labels_CBP))
    return losses_CBP.swapaxes(0, 1).reshape(B, num_chunks * size)[:, :S]
