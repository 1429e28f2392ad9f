# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""The pipeline: what the model learns from, its loss, and its predictions. Made to be edited.

B batch, S sequence, T new tokens. A name carries its shape: ids_BS is an array of shape (B, S).
"""

import functools
import os
import pydoc_data.topics
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from redco_runtime.errors import UserError
from redco_runtime.generate import generate
from redco_runtime.losses import cross_entropy

Batch = dict[str, jax.Array]

NEW_TOKENS = 64
TEMPERATURE = 0.7  # 0.0: always the most likely token


def collate(examples: list[dict]) -> dict[str, np.ndarray]:
    """Examples -> one batch of arrays whose first dim is B. Runs on the host."""
    return {
        "input_ids": np.stack([example["input_ids"] for example in examples]),
        "mask": np.stack([example["mask"] for example in examples]),
    }


def loss(model: nnx.Module, batch: Batch, rngs: nnx.Rngs) -> tuple[jax.Array, jax.Array]:
    """(losses_BS, weights_BS): each position predicts the next token; padding weighs nothing."""
    labels_BS = jnp.roll(batch["input_ids"], -1, axis=1)
    weights_BS = jnp.roll(batch["mask"], -1, axis=1).at[:, -1].set(False)
    losses_BS = cross_entropy(model.logits, model.hidden(batch["input_ids"]), labels_BS)
    return losses_BS, weights_BS.astype(jnp.float32)


def predict(model: nnx.Module, batch: Batch, rngs: nnx.Rngs) -> jax.Array:
    """tokens_BT: the continuation of each row."""
    return generate(
        model,
        batch["input_ids"],
        batch["mask"],
        max_new_tokens=NEW_TOKENS,
        temperature=TEMPERATURE,
        key=rngs(),
    )


def decode(config, outputs, examples):
    """The text of each prediction."""
    return tokenizer(config.data.tokenizer).batch_decode(outputs, skip_special_tokens=True)


def examples(config):
    """(training examples, held-out examples): blocks of S tokens, cut from the text files."""
    length = config.data.sequence_length
    ids = tokenizer(config.data.tokenizer)(text(config), add_special_tokens=False)["input_ids"]
    blocks = np.array(ids[: len(ids) // length * length], np.int32).reshape(-1, length)
    if len(blocks) < 2:
        raise UserError(f"the text has {len(ids)} tokens: give two blocks of {length} at least")
    found = [{"input_ids": row, "mask": np.ones(length, bool)} for row in blocks]
    held_out = max(1, round(len(found) * config.data.held_out))
    return found[:-held_out], found[-held_out:]


def prompts(config, texts):
    """An example for each text to continue, padded on the right and cut on the left."""
    length = config.data.sequence_length - NEW_TOKENS
    if length < 1:
        raise UserError(
            f"--sequence-length: give more than {NEW_TOKENS}, NEW_TOKENS in pipeline.py"
        )
    found = []
    for prompt in texts:
        ids = tokenizer(config.data.tokenizer)(prompt, add_special_tokens=False)["input_ids"]
        if not ids:
            raise UserError("--prompt: an empty prompt cannot be continued: give a word at least")
        ids = np.array(ids[-length:], np.int32)
        padded = np.pad(ids, (0, length - len(ids)))
        found.append({"input_ids": padded, "mask": np.arange(length) < len(ids)})
    return found


def text(config):
    """The text to learn: the files, or the language reference that ships with Python."""
    texts = []
    for name in config.data.text_files:
        try:
            texts.append(Path(name).read_text(encoding="utf-8"))
        except (OSError, UnicodeError) as error:
            raise UserError(f"--text-files: cannot read {name}: {error}") from None
    return "\n".join(texts or pydoc_data.topics.topics.values())


@functools.cache
def tokenizer(name):
    """A Hugging Face tokenizer, by id or folder; "bytes" has one token a byte and needs no files."""
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # that PyTorch is missing
    from transformers import AutoTokenizer, ByT5Tokenizer

    return ByT5Tokenizer() if name == "bytes" else AutoTokenizer.from_pretrained(name)
