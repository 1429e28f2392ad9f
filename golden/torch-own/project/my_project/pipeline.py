# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""The pipeline: what the model learns from, its loss, and its predictions. Made to be edited.

B batch, S sequence, V words. A name carries its shape: ids_BS is an array of shape (B, S).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from my_project.runtime.data.example_streams import count_held_out
from my_project.runtime.data.held_out import held_out_example
from my_project.runtime.nn.losses import cross_entropy

Batch = dict[str, jax.Array]

UNIT = "tokens"  # what the throughput is counted in, by count()
WORDS = 256
SEQUENCE_LENGTH = 32  # S
PROMPT_LENGTH = 16  # ids of an example that predict() continues


def collate(examples: list[dict]) -> dict[str, np.ndarray]:
    """Stack examples to one batch of arrays whose first dim is B. Runs on the host."""
    names = sorted({name for example in examples for name in example})
    return {name: np.stack([example[name] for example in examples]) for name in names}


def loss(model: nnx.Module, batch: Batch, rngs: nnx.Rngs) -> tuple[jax.Array, jax.Array]:
    """Return (losses_BS, weights_BS): each position predicts the next id."""
    labels_BS = jnp.roll(batch["ids"], -1, axis=1)
    weights_BS = jnp.ones(labels_BS.shape).at[:, -1].set(0.0)
    losses_BS = cross_entropy(lambda logits: logits, model(ids=batch["ids"]), labels_BS)
    return losses_BS, weights_BS


def count(batch: dict[str, np.ndarray]) -> int:
    """Return how many ids a batch has, padding left out. Runs on the host."""
    return int(batch["ids"].size)


def predict(model: nnx.Module, batch: Batch, rngs: nnx.Rngs) -> jax.Array:
    """Return ids_BS: the start of each row, then the likeliest ids, one call of the model an id."""

    def add(ids_BS, position):
        copy = nnx.clone(model)  # a call may change what a model holds
        logits_BSV = copy(ids=ids_BS)
        next_B = logits_BSV[:, position - 1].argmax(axis=-1).astype(ids_BS.dtype)
        return ids_BS.at[:, position].set(next_B), None

    ids_BS, _ = jax.lax.scan(add, batch["ids"], jnp.arange(PROMPT_LENGTH, SEQUENCE_LENGTH))
    return ids_BS


def decode(config, outputs, examples):
    """Describe each prediction."""
    return [f"{row[:PROMPT_LENGTH].tolist()} -> {row[PROMPT_LENGTH:].tolist()}" for row in outputs]


@functools.cache  # prompts() asks again
def examples(config):
    """Return (training, held-out) examples. Made up, counting by 1, 2 or 3: read yours here."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(config.data.num_examples):
        ids = (rng.integers(WORDS) + rng.integers(1, 4) * np.arange(SEQUENCE_LENGTH)) % WORDS
        example = {"ids": ids.astype(np.int32)}
        rows.append(example)
    held_out = count_held_out(len(rows), config.data.held_out)
    return rows[:-held_out], rows[-held_out:]


def prompts(config, texts):
    """Return the held-out example of each number."""
    _, held_out = examples(config)
    return [held_out_example(held_out, text) for text in texts]
