"""The pipeline: what the model learns from, its loss, and its predictions. Made to be edited.

B batch, S sequence. A name carries its shape: ids_BS is an array of shape (B, S).
"""

import functools
import pydoc_data.topics
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from redco_runtime.errors import UserError
from redco_runtime.losses import cross_entropy
from redco_runtime.text.examples import packed_texts
from redco_runtime.tokenizer import load_tokenizer

Batch = dict[str, jax.Array]

UNIT = "tokens"  # what the throughput is counted in, by count()
MASKED = 0.15  # share of the tokens of an example that the model is asked for
HIDDEN, SWAPPED = (
    0.8,
    0.1,
)  # shares of those: replaced by the mask, by any token; the others are kept
MASK = "[MASK]"  # in prompts, whatever the tokenizer calls it
NOT_ASKED = -1  # label of a token that the model is not asked for


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
    """Return training examples and held-out ones: rows of S tokens of --data, or blocks of the text files."""
    if config.data.data:
        own = tokenizer(config.data.tokenizer)
        both = packed_texts(config.data, own, config.model.vocab_size)
        return tuple(rows.map(lambda row, i: masked(config, row, i)) for rows in both)
    first, last = frame(config.data.tokenizer)
    length = config.data.sequence_length - len(first) - len(last)
    ids = tokenizer(config.data.tokenizer)(text(config), add_special_tokens=False)["input_ids"]
    blocks = np.array(ids[: len(ids) // length * length], np.int32).reshape(-1, length)
    if len(blocks) < 2:
        raise UserError(f"the text has {len(ids)} tokens: give two blocks of {length} at least")
    rows = [example(config, row, i) for i, row in enumerate(blocks)]
    held_out = max(1, round(len(rows) * config.data.held_out))
    return rows[:-held_out], rows[-held_out:]


def example(config, ids, index):
    """Return one example: `ids`, some of them masked, between the tokenizer's special tokens."""
    first, last = frame(config.data.tokenizer)
    shown, labels = ask(ids, tokenizer(config.data.tokenizer), config.train.seed, index)
    around = (len(first), len(last))
    return {
        "input_ids": np.concatenate([first, shown, last]).astype(np.int32),
        "mask": np.ones(len(ids) + sum(around), bool),
        "labels": np.pad(labels, around, constant_values=NOT_ASKED),
    }


def masked(config, row, index):
    """Return one example of a row of texts: some of its ids masked, but for special tokens."""
    tokens = tokenizer(config.data.tokenizer)
    mask = row["segments"] > 0 if "segments" in row else row["mask"]
    shown, labels = row["input_ids"].copy(), np.full(len(mask), NOT_ASKED, np.int32)
    places = np.flatnonzero(mask & ~np.isin(shown, tokens.all_special_ids))
    shown[places], labels[places] = ask(shown[places], tokens, config.train.seed, index)
    return {"input_ids": shown, "mask": mask, "labels": labels}


def ask(ids, tokens, seed, index):
    """Return the ids as the model sees them, and labels: the same for the same seed and index.

    Devlin et al. 2019, section 3.1, but for the count: MASKED of the ids, rounded, and one at least.
    """
    # NumPy keeps the raw words of Philox for ever; a Generator's methods may change by release.
    random = np.random.Philox(key=np.array([seed % 2**64, index], np.uint64))
    chosen = np.argsort(random.random_raw(len(ids)))[: max(1, round(MASKED * len(ids)))]
    share = random.random_raw(len(chosen)) / 2**64
    others = random.random_raw(len(chosen)) % len(tokens)
    labels, shown = np.full(len(ids), NOT_ASKED, np.int32), ids.copy()
    labels[chosen] = ids[chosen]
    swapped = np.where(share < HIDDEN + SWAPPED, others, ids[chosen])
    shown[chosen] = np.where(share < HIDDEN, tokens.mask_token_id, swapped)
    return shown, labels


def prompts(config, texts):
    """Return an example for each text, its [MASK]s to be filled in, padded on the right."""
    tokens, length = tokenizer(config.data.tokenizer), config.data.sequence_length
    rows = []
    for prompt in texts:
        ids = tokens(prompt.replace(MASK, tokens.mask_token))["input_ids"]
        if tokens.mask_token_id not in ids[:length]:
            raise UserError(f"--prompt: {prompt!r}: put {MASK} where a token is to be filled in")
        if len(ids) > length:
            raise UserError(
                f"--prompt: {len(ids)} tokens, and the model takes {length}: shorten it"
            )
        padded = np.pad(np.array(ids, np.int32), (0, length - len(ids)))
        labels = np.full(length, NOT_ASKED, np.int32)
        rows.append({"input_ids": padded, "mask": np.arange(length) < len(ids), "labels": labels})
    return rows


def text(config):
    """Return the text to learn: the files, or the language reference that ships with Python."""
    texts = []
    for name in config.data.text_files:
        try:
            texts.append(Path(name).read_text(encoding="utf-8"))
        except (OSError, UnicodeError) as error:
            raise UserError(f"--text-files: cannot read {name}: {error}") from None
    return "\n".join(texts or pydoc_data.topics.topics.values())


def frame(name):
    """Return (ids before a text, ids after it) that a tokenizer adds: BERT's [CLS] and [SEP]."""
    bare = tokenizer(name)("a", add_special_tokens=False)["input_ids"]
    framed = tokenizer(name)("a")["input_ids"]
    start = framed.index(bare[0])
    return framed[:start], framed[start + len(bare) :]


@functools.cache
def tokenizer(name):
    """Return a Hugging Face tokenizer, by id or folder; "bytes" has a token a byte and no files."""
    tokens = load_tokenizer(name, mask_token="<extra_id_0>")
    if tokens.mask_token_id is None:
        raise UserError(f"--tokenizer: {name} has no mask token: give the tokenizer of a BERT")
    return tokens
