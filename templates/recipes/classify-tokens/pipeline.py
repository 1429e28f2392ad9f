"""The pipeline: words and their labels, the loss, and predictions. Made to be edited.

B batch, S sequence, C labels. A name carries its shape: ids_BS is an array of shape (B, S).
"""

import functools
import io
import keyword
import sysconfig
import tokenize
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from redco_runtime.nn.heads.classifier import ClassifierWeights, classify_tokens, with_classifier
from redco_runtime.data.labels.documents import WordLabels, labelled_examples, row_to_label
from redco_runtime.data.labels.spans import entity_f1, report_entities
from redco_runtime.nn.plain_losses import class_losses
from redco_runtime.data.text.samples import own_prompts
from redco_runtime.data.tokenizer import load_tokenizer

Batch = dict[str, jax.Array]

UNIT = "tokens"  # what the throughput is counted in, by count()
# What a name is of a line of Python: by the word before it, or called, where a bracket follows.
ROLES = {"def": "function", "class": "class", "import": "module", "from": "module"}


def with_head(model_class, config, *, rngs: nnx.Rngs) -> nnx.Module:
    """Return the model, which makes a number of each label for each token, and no words."""
    model = model_class(config.model, rngs=rngs)
    return with_classifier(model, config.model.embed_dim, len(config.train.labels), rngs)


def head_weights(config, weights):
    """Return what files call its parameters, from what they call those of the model of words."""
    return ClassifierWeights(weights, config.train.labels)


def collate(examples: list[dict]) -> dict[str, np.ndarray]:
    """Return one batch of texts: ids, mask and labels, each (B, S). Runs on the host.

    A label is 1 + its number, 0 where there is none, and negative where another token of the word says it.
    """
    names = ("input_ids", "mask", "label")
    return {name: np.stack([example[name] for example in examples]) for name in names}


def loss(model: nnx.Module, batch: Batch, rngs: nnx.Rngs) -> tuple[jax.Array, jax.Array]:
    """Return losses_BS and weights_BS of the label of each token of a word."""
    logits_BSC = classify_tokens(model, batch["input_ids"], batch["mask"])
    labels_BS = jnp.maximum(jnp.abs(batch["label"].astype(jnp.int32)) - 1, 0)
    losses_BS = class_losses(logits_BSC, labels_BS)
    return losses_BS, (batch["label"] != 0).astype(jnp.float32)


def count(batch: dict[str, np.ndarray]) -> int:
    """Return how many tokens a batch has; padding is none. Runs on the host."""
    return int(batch["mask"].sum())


def predict(model: nnx.Module, batch: Batch, rngs: nnx.Rngs) -> jax.Array:
    """Return classes_BS: the number of the likeliest label of each token."""
    return classify_tokens(model, batch["input_ids"], batch["mask"]).argmax(axis=-1)


def decode(config, outputs, examples):
    """Return the labels of the words of each text."""
    return [" ".join(names(config, row, one)) for row, one in zip(outputs, examples, strict=True)]


def evaluate(config, outputs, examples):
    """Return F1 of entities, as of CoNLL: one is right by its kind and all of its words. And the accuracy of words."""
    expected, predicted = words(config, outputs, examples)
    same = [
        a == b for pair in zip(expected, predicted, strict=True) for a, b in zip(*pair, strict=True)
    ]
    return {"f1": entity_f1(expected, predicted), "accuracy": float(np.mean(same))}


def report(config, outputs, examples):
    """Return how well the entities of each kind are predicted."""
    return report_entities(*words(config, outputs, examples))


def words(config, outputs, examples):
    """Return the labels of the words of each text: those that it has, and those that are predicted."""
    rows = [*zip(outputs, examples, strict=True)]
    expected = [names(config, abs(one["label"]) - 1, one) for _, one in rows]
    return expected, [names(config, row, one) for row, one in rows]


def names(config, numbers, example):
    """Return the label of each word of an example, of numbers (S,)."""
    return [config.train.labels[number] for number in numbers[example["label"] > 0]]


def examples(config):
    """Return training examples and held-out ones: words of --data, or lines of Python's library."""
    made = functools.partial(lines, config.data.sequence_length)
    return labelled_examples(config.data, maker(config), config.model.vocab_size, made)


def prompts(config, texts):
    """Return an example for each text: words with spaces between them."""
    data, own = config.data, maker(config)
    rows = [text if isinstance(text, list) else text.split() for text in texts]
    rows = [{data.text_field: words, data.label_field: [0] * len(words)} for words in rows]
    return [row_to_label(own, row) for row in rows]


def sample_prompts(config):
    """Return what is asked at each evaluation: of rows of `--data`, where config.py alone names prompts."""
    return own_prompts(config, lambda row: " ".join(row[config.data.text_field]), prompts)


def maker(config):
    """Return what makes examples of rows."""
    data, own = config.data, tokenizer(config.data.tokenizer)
    fields = data.text_field, data.label_field
    return WordLabels(own, config.train.labels, fields, data.sequence_length, data.subword)


def lines(length):
    """Return lines of Python's library that have names with a role, and fit `length` bytes, each once."""
    texts = set()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("[a-c]*.py")):
        words = []
        for token in tokenize.generate_tokens(
            io.StringIO(path.read_text(encoding="utf-8")).readline
        ):
            if token.type == tokenize.NEWLINE:
                texts.add(tuple(words))
                words = []
            elif token.type != tokenize.COMMENT and token.string.strip():
                words.append(token.string)
    short = [text for text in sorted(texts) if len(" ".join(text)) < length - 4]
    rows = [{"words": [*text], "labels": roles(text)} for text in short if {*roles(text)} != {"O"}]
    return [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]


def roles(words):
    """Return the label of each word of a line: B- and I- of names with a role, dots between them too."""
    labels, at = ["O"] * len(words), 0
    while at < len(words):
        end = at + 1
        if is_name(words[at]):
            while words[end : end + 1] == (".",) and is_name(*words[end + 1 : end + 2]):
                end += 2
            called = "call" if words[end : end + 1] == ("(",) else ""
            if role := ROLES.get(words[at - 1] if at else "", called):
                labels[at:end] = [f"B-{role}", *[f"I-{role}"] * (end - at - 1)]
        at = end
    return labels


def is_name(word=""):
    """Return whether a word is a name, and no keyword."""
    return word.isidentifier() and not keyword.iskeyword(word)


@functools.cache
def tokenizer(name):
    """Return a Hugging Face tokenizer, by id or folder; "bytes" has a token a byte and no files."""
    return load_tokenizer(name)
