"""The pipeline: what the model learns from, its loss, and its predictions. Made to be edited.

B batch, S sequence. A name carries its shape: ids_BS is an array of shape (B, S).
"""

import functools
import pydoc_data.topics

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from redco_runtime.data.example_random import Draws
from redco_runtime.base.messages import UserError
from redco_runtime.nn.losses import cross_entropy
from redco_runtime.data.text.prompts import own_prompts, pad_row
from redco_runtime.data.text.framed_texts import packed_texts
from redco_runtime.data.text.masking import NOT_ASKED, mask_tokens
from redco_runtime.data.tokenizer import load_tokenizer

Batch = dict[str, jax.Array]

UNIT = "tokens"  # what the throughput is counted in, by count()
MASKED = 0.15  # share of the tokens of an example that the model is asked for
MASK = "[MASK]"  # in prompts, whatever the tokenizer calls it
WORDS = 8  # of a text of `--data` that is shown, the last one hidden


def collate(examples: list[dict]) -> dict[str, np.ndarray]:
    """Return one batch of examples: arrays whose first dim is B. Runs on the host."""
    names = ("input_ids", "mask", "labels")
    return {name: np.stack([example[name] for example in examples]) for name in names}


def loss(model: nnx.Module, batch: Batch, rngs: nnx.Rngs) -> tuple[jax.Array, jax.Array]:
    """Return losses_BS and weights_BS: only the tokens that are asked for weigh."""
    x_BSD = model.hidden(batch["input_ids"], batch["mask"])
    losses_BS = cross_entropy(model.logits, x_BSD, batch["labels"])
    return losses_BS, (batch["labels"] != NOT_ASKED).astype(jnp.float32)


def count(batch: dict[str, np.ndarray]) -> int:
    """Return how many tokens a batch has; padding is none. Runs on the host."""
    return int(batch["mask"].sum())


def predict(model: nnx.Module, batch: Batch, rngs: nnx.Rngs) -> jax.Array:
    """Return tokens_BS, the likeliest token of each place."""
    x_BSD = model.hidden(batch["input_ids"], batch["mask"])
    return model.logits(x_BSD).argmax(axis=-1).astype(jnp.int32)


def decode(config, outputs, examples):
    """Return the text of each example, its masks filled in."""
    tokens = tokenizer(config.data.tokenizer)
    rows = []
    for filled, example in zip(outputs, examples, strict=True):
        ids = np.where(example["input_ids"] == tokens.mask_token_id, filled, example["input_ids"])
        rows.append(ids[example["mask"]])
    return tokens.batch_decode(rows, skip_special_tokens=True)


def evaluate(config, outputs, examples):
    """Return {"accuracy": share of the tokens asked for that are predicted}."""
    labels = np.stack([example["labels"] for example in examples])
    return {"accuracy": float((outputs == labels)[labels != NOT_ASKED].mean())}


def examples(config):
    """Return training examples and held-out ones: rows of --data, of --text-files, or of Python's own manual."""
    own, texts = tokenizer(config.data.tokenizer), pydoc_data.topics.topics.values()
    both = packed_texts(config.data, own, config.model.vocab_size, texts)
    make = functools.partial(masked, config)
    return tuple(Draws(rows, make, config.train.seed) for rows in both)


def masked(config, row, random):
    """Return one example of a row of texts: some of its ids masked, but for special tokens."""
    tokens = tokenizer(config.data.tokenizer)
    mask = row["segments"] > 0 if "segments" in row else row["mask"]
    shown, labels = row["input_ids"].copy(), np.full(len(mask), NOT_ASKED, np.int32)
    places = np.flatnonzero(mask & ~np.isin(shown, tokens.all_special_ids))
    asked = mask_tokens(shown[places], tokens, MASKED, random)
    shown[places], labels[places] = asked
    return {"input_ids": shown, "mask": mask, "labels": labels}


def prompts(config, texts):
    """Return an example for each text, its [MASK]s to be filled in, padded on the right."""
    tokens, length = tokenizer(config.data.tokenizer), config.data.sequence_length
    rows = []
    for prompt in texts:
        ids = tokens(prompt.replace(MASK, tokens.mask_token))["input_ids"]
        if tokens.mask_token_id not in ids[:length]:
            raise UserError(f"--prompt: {prompt!r}: put {MASK} where a token is to be filled in")
        rows.append(pad_row(ids, length) | {"labels": np.full(length, NOT_ASKED, np.int32)})
    return rows


def sample_prompts(config):
    """Return what is asked at each evaluation: of rows of `--data`, where config.py alone names prompts."""

    def ask(row):
        *words, last = row[config.data.text_field].split()[:WORDS]
        return " ".join([*words, MASK])

    return own_prompts(config, ask, prompts)


@functools.cache
def tokenizer(name):
    """Return a Hugging Face tokenizer, by id or folder; "bytes" has a token a byte and no files."""
    tokens = load_tokenizer(name, mask_token="<extra_id_0>")
    if tokens.mask_token_id is None:
        raise UserError(f"--tokenizer: {name} has no mask token: give the tokenizer of a BERT")
    return tokens
