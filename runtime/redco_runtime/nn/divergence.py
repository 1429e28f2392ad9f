"""How far one model's prediction is from another's.

Shape letters: B batch, S sequence, D and E features of the two models, V vocab, C chunks, P positions.
"""

import math

import jax
import jax.numpy as jnp

from ..layout.mesh import free_axes
from .losses import CHUNK_BYTES, LogitsFn


def divergence(
    logits_fn: LogitsFn, x_BSD: jax.Array, soft_fn: LogitsFn, y_BSE: jax.Array, temperature: float
) -> jax.Array:
    """Return the divergence of Kullback and Leibler of each token in nats: losses_BS, float32.

    From what `soft_fn` makes of y_BSE, which has no gradient, to what `logits_fn` makes of x_BSD, of the
    same vocabulary. All logits are divided by `temperature`, and the loss multiplied by its square, so
    that gradients are of one size whatever it is (Hinton, Vinyals and Dean 2015). Logits of as many
    positions as have CHUNK_BYTES exist at once, and are computed again in the backward pass.
    """
    (B, S, _), V = x_BSD.shape, jax.eval_shape(logits_fn, x_BSD).shape[-1]
    size = max(1, CHUNK_BYTES * math.prod(free_axes().values()) // (4 * B * V))
    y_BSE = jax.lax.stop_gradient(y_BSE)

    @jax.checkpoint
    def losses(parts: tuple[jax.Array, jax.Array]) -> jax.Array:
        logits_BPV, soft_BPV = logits_fn(parts[0]), jax.lax.stop_gradient(soft_fn(parts[1]))
        log_q_BPV, log_p_BPV = (
            jax.nn.log_softmax(x.astype(jnp.float32) / temperature) for x in (logits_BPV, soft_BPV)
        )
        return temperature**2 * jnp.sum(jnp.exp(log_p_BPV) * (log_p_BPV - log_q_BPV), axis=-1)

    if size >= S:
        return losses((x_BSD, y_BSE))
    count = -(-S // size)
    padding = ((0, 0), (0, count * -(-S // count) - S), (0, 0))
    x_CBPD, y_CBPE = (
        jnp.pad(x, padding).reshape(B, count, -1, x.shape[-1]).swapaxes(0, 1)
        for x in (x_BSD, y_BSE)
    )
    losses_CBP = jax.lax.map(losses, (x_CBPD, y_CBPE))
    return losses_CBP.swapaxes(0, 1).reshape(B, -1)[:, :S]
