"""The pipeline: what the model learns from, its loss, and its predictions. Made to be edited.

B batch, S source, T target. A name carries its shape: ids_BS is an array of shape (B, S).
"""

import ast
import functools
import sysconfig
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from redco_runtime.nn.beam import beam_search
from redco_runtime.nn.losses import cross_entropy
from redco_runtime.data.pairs.examples import pair_examples
from redco_runtime.data.pairs.reading import read_pair
from redco_runtime.data.pairs.scores import bleu, rouge
from redco_runtime.data.text.prompts import own_prompts, pad_row
from redco_runtime.data.text.framed import first_tokens
from redco_runtime.data.tokenizer import load_tokenizer

Batch = dict[str, jax.Array]

UNIT = "tokens"  # what the throughput is counted in, by count()
# How targets are written: flags of predict.py change it, and the generation_config.json of a checkpoint.
NUM_BEAMS = 4  # 1: always the most likely token
LENGTH_PENALTY = 1.0  # more prefers longer targets, less shorter ones
EARLY_STOPPING = False  # True: once there are as many targets as beams
NEW_TOKENS, LEAST_TOKENS = 0, 0  # of a target, at most, 0: target_length, and at least
STOP_IDS, FORCED_IDS = (), {}  # tokens that end a target too; those that all begin or end with


def collate(examples: list[dict]) -> dict[str, np.ndarray]:
    """Return one batch of examples: arrays whose first dim is B. Runs on the host."""
    names = ("input_ids", "mask", "decoder_ids", "labels", "label_mask")
    return {name: np.stack([example[name] for example in examples]) for name in names}


def loss(model: nnx.Module, batch: Batch, rngs: nnx.Rngs) -> tuple[jax.Array, jax.Array]:
    """Return losses_BT and weights_BT: of each token of the target; padding weighs nothing."""
    x_BSD = model.encode(batch["input_ids"], batch["mask"])
    y_BTD = model.hidden(batch["decoder_ids"], x_BSD, batch["mask"])
    losses_BT = cross_entropy(model.logits, y_BTD, batch["labels"])
    return losses_BT, batch["label_mask"].astype(jnp.float32)


def count(batch: dict[str, np.ndarray]) -> int:
    """Return how many tokens a batch has, source and target; padding is none. Runs on the host."""
    return int(batch["mask"].sum() + batch["label_mask"].sum())


def predict(model: nnx.Module, batch: Batch, rngs: nnx.Rngs) -> jax.Array:
    """Return tokens_BT, the likeliest target that a beam search finds for each source."""
    return beam_search(
        model,
        batch["input_ids"],
        batch["mask"],
        num_beams=NUM_BEAMS,
        length_penalty=LENGTH_PENALTY,
        early_stopping=EARLY_STOPPING or NUM_BEAMS == 1,
        max_new_tokens=NEW_TOKENS or batch["labels"].shape[1],
        min_new_tokens=LEAST_TOKENS,
        stop_ids=STOP_IDS,
        **(model.config.special_ids | FORCED_IDS),
    )


def decode(config, outputs, examples):
    """Return the text of each prediction."""
    return tokenizer(config.data.tokenizer).batch_decode(outputs, skip_special_tokens=True)


def evaluate(config, outputs, examples):
    """Return ROUGE of the predictions, 0 to 1, and BLEU, 0 to 100, where sacrebleu is installed."""
    texts = decode(config, outputs, examples)
    targets = decode(config, [example["labels"] for example in examples], examples)
    return rouge(targets, texts) | bleu(targets, texts)


def examples(config):
    """Return training examples and held-out ones: pairs of --data, or of Python's own library."""
    own, pairs = tokenizer(config.data.tokenizer), [] if config.data.data else docstrings()
    both = pair_examples(config.data, own, config.model.vocab_size, pairs)
    return tuple(rows.map(lambda pair, _: example(config, *pair)) for rows in both)


def prompts(config, texts):
    """Return an example for each source, without a target."""
    return [example(config, *ids_of(config, text, "")) for text in texts]


def sample_prompts(config):
    """Return what is asked at each evaluation: of rows of `--data`, where config.py alone names prompts."""
    names = config.data.source_field, config.data.target_field
    return own_prompts(config, lambda row: read_pair(row, names)[0], prompts)


def ids_of(config, source, target):
    """Return the ids of a pair of texts with their special tokens, cut to their lengths, which is said."""
    data, own = config.data, tokenizer(config.data.tokenizer)
    both = ((data.prefix + source, data.sequence_length), (target, data.target_length))
    return [first_tokens(own, text, most) for text, most in both]


def example(config, source, target):
    """Return one pair of ids. The decoder sees the target one place later, behind start_id."""
    data, model = config.data, config.model
    row = pad_row(source, data.sequence_length, model.pad_id)
    labels_T, label_mask_T = pad_row(target, data.target_length, model.pad_id).values()
    decoder_ids_T = np.concatenate([[model.start_id], labels_T[:-1]]).astype(np.int32)
    return row | {"decoder_ids": decoder_ids_T, "labels": labels_T, "label_mask": label_mask_T}


def docstrings():
    """Return (first paragraph, its first three words) of docstrings of Python's library."""
    paragraphs = set()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            kind = isinstance(node, ast.FunctionDef | ast.ClassDef)
            if kind and (text := ast.get_docstring(node)):
                paragraphs.add(" ".join(text.split("\n\n")[0].split()))
    return [(text, " ".join(text.split()[:3])) for text in sorted(paragraphs)]


@functools.cache
def tokenizer(name):
    """Return a Hugging Face tokenizer, by id or folder; "bytes" has a token a byte and no files."""
    return load_tokenizer(name)
