# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""The pipeline: what the model learns from, its loss, and its predictions. Made to be edited.

B batch, S sequence, T new tokens. A name carries its shape: ids_BS is an array of shape (B, S).
"""

import functools
import pydoc_data.topics

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from my_project.runtime.data.text.prompts import first_words, own_prompts, rows_to_continue
from my_project.runtime.data.text.text_examples import text_examples
from my_project.runtime.data.tokenizer import load_tokenizer
from my_project.runtime.nn.generate import generate
from my_project.runtime.nn.losses import cross_entropy
from my_project.runtime.run.generation import until

Batch = dict[str, jax.Array]

UNIT = "tokens"  # what the throughput is counted in, by count()
# How texts are drawn: flags of predict.py change it, and the generation_config.json of a checkpoint.
NEW_TOKENS = 64
TEMPERATURE = 0.7  # 0.0: always the most likely token
TOP_K = 0  # draw of so many likely tokens; 0: of all
TOP_P = 1.0  # of those that have this share together
STOP_IDS = ()  # tokens that end a text


def collate(examples: list[dict]) -> dict[str, np.ndarray]:
    """Return one batch of examples: arrays whose first dim is B. Runs on the host."""
    return {name: np.stack([example[name] for example in examples]) for name in examples[0]}


def loss(model: nnx.Module, batch: Batch, rngs: nnx.Rngs) -> tuple[jax.Array, jax.Array]:
    """Return losses_BS and weights_BS: each token predicts the next one of its text."""
    labels_BS, weights_BS = targets(batch)
    x_BSD = model.hidden(batch["input_ids"], batch.get("segments"))
    losses_BS = cross_entropy(model.logits, x_BSD, labels_BS)
    return losses_BS, weights_BS


def targets(batch: Batch) -> tuple[jax.Array, jax.Array]:
    """Return labels_BS, the next tokens, and weights_BS: 1 where the next token is of the same text."""
    numbers_BS = text_numbers(batch)
    same_BS = (numbers_BS == jnp.roll(numbers_BS, -1, axis=1)) & (numbers_BS > 0)
    weights_BS = same_BS.at[:, -1].set(False).astype(jnp.float32)
    return jnp.roll(batch["input_ids"], -1, axis=1), weights_BS


def text_numbers(batch):
    """Return which text of its row each token is of, from 1: numbers_BS. 0 is padding."""
    return batch["segments"] if "segments" in batch else batch["mask"].astype(np.int32)


def count(batch: dict[str, np.ndarray]) -> int:
    """Return how many tokens a batch has; padding is none. Runs on the host."""
    return int((text_numbers(batch) > 0).sum())


def predict(model: nnx.Module, batch: Batch, rngs: nnx.Rngs) -> jax.Array:
    """Return tokens_BT, the continuation of each row."""
    return generate(
        model,
        batch["input_ids"],
        batch["mask"],
        max_new_tokens=NEW_TOKENS,
        temperature=TEMPERATURE,
        top_k=TOP_K,
        top_p=TOP_P,
        stop_ids=STOP_IDS,
        key=rngs(),
    )


def decode(config, outputs, examples):
    """Return the text of each prediction."""
    rows = until(outputs, STOP_IDS)
    return tokenizer(config.data.tokenizer).batch_decode(rows, skip_special_tokens=True)


def examples(config):
    """Return training examples and held-out ones: rows of --data, of --text-files, or of Python's own manual."""
    own, texts = tokenizer(config.data.tokenizer), pydoc_data.topics.topics.values()
    return text_examples(config.data, own, config.model.vocab_size, texts)


def prompts(config, texts):
    """Return an example for each text to continue."""
    length = config.data.sequence_length - NEW_TOKENS
    return rows_to_continue(tokenizer(config.data.tokenizer), texts, length)


def sample_prompts(config):
    """Return what is asked at each evaluation: of rows of `--data`, where config.py alone names prompts."""

    def ask(row):
        return first_words(row[config.data.text_field])

    return own_prompts(config, ask, prompts)


@functools.cache
def tokenizer(name):
    """Return a Hugging Face tokenizer, by id or folder; "bytes" has a token a byte and no files."""
    return load_tokenizer(name)
