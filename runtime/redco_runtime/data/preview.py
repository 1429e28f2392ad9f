"""What prepare.py shows of the first rows, as a run would learn from them."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..base.examples import Arrays
from ..base.messages import UserError, feature, print_once
from ..run.record import Run
from .collating import collate_examples
from .batches import NO_LENGTH, batch_indices
from .example_streams import is_stream

WINDOW = 8  # tokens before one that decide its text, such as whether a space begins it
PART = "\ufffd"  # what is decoded of a part of a character
NOT_ASKED = -1  # label of a token that a masked model is not asked for, as in text/masking.py


def preview(pipeline: Any, run: Run) -> None:
    """Print the first `run.preview` rows, in the order of training: the texts of tokens, and what is learned of them.

    Raises UserError where a batch has no tokens.
    """
    batch, config = _first_batch(pipeline, run), run.config
    if "input_ids" not in batch or not hasattr(pipeline, "tokenizer"):
        raise UserError(
            "--preview: it shows tokens, and collate() in pipeline.py gives no input_ids of them: leave it out"
        )
    print_ = Printer(
        pipeline.tokenizer(config.data.tokenizer),
        getattr(config.train, "labels", ()),
        sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
    )
    learned_RS, labels_RS = _learned(pipeline, batch)
    numbers_RS = batch["segments"] if "segments" in batch else batch["mask"].astype(np.int32)
    for place in np.ndindex(batch["input_ids"].shape[:-1]):  # of a pair two rows
        every = (numbers_RS, batch["input_ids"], learned_RS)
        numbers_S, ids_S, learned_S = (x[place] for x in every)
        texts = [numbers_S == number for number in range(1, int(numbers_S.max(initial=0)) + 1)]
        name = "row " + ", side ".join(str(at + 1) for at in place)
        count = f"{(numbers_S > 0).sum()} tokens in {len(texts)} texts"
        print_once(f"-- {name}: {count}, {learned_S[numbers_S > 0].sum()} of them learned")
        for own in texts:
            labels = None if labels_RS is None else labels_RS[place][own]
            print_.tokens(ids_S[own], learned_S[own], labels)
        if "label_mask" in batch:
            target = batch["labels"][place][batch["label_mask"][place]]
            print_once(f"-- its target: {len(target)} tokens, all of them learned")
            print_.tokens(target, np.ones(len(target), bool), None)
        elif "label" in batch and labels_RS is None:
            print_once(f"-- its label, which is learned: {print_.name(int(batch['label'][place]))}")
    answers = "what the model answers is learned"
    learned = answers if _draws(pipeline) else f"what is learned is {print_.how}"
    print_once(f"-- {learned}; a dot is between two tokens; nothing was trained")


def _first_batch(pipeline: Any, run: Run) -> Arrays:
    """Return the first rows of training, collated, or as they are where answers are drawn before that."""
    examples, _ = pipeline.examples(run.config)
    seed, count = run.config.train.seed, run.preview
    stream: Any = None
    indices: Sequence[int] = range(count)
    if hasattr(examples, "begin"):
        stream = examples
        stream.begin(seed, run.config.train.batch_size, None)
        indices = indices[: run.config.train.batch_size]
    elif is_stream(examples):
        stream = feature("iterators", "data.iterators", NO_LENGTH).Stream(examples, count)
    if stream:
        rows: Any = stream.take(0, indices)
    else:
        rows = examples
        indices = batch_indices(examples, seed, 0, min(count, len(examples))).tolist()
    if not _draws(pipeline):
        return collate_examples(rows, pipeline.collate, indices)
    some = [rows[index] for index in indices]
    names = [name for name in ("input_ids", "mask") if all(name in one for one in some)]
    return {name: np.stack([one[name] for one in some]) for name in names}


def _learned(pipeline: Any, batch: Arrays) -> tuple[np.ndarray, np.ndarray | None]:
    """Return which tokens are learned, as the recipes say it, and their labels where these are not the tokens.

    targets(batch) of pipeline.py weighs the next tokens; "learned" marks tokens; labels are of tokens.
    """
    ids = batch["input_ids"]
    if hasattr(pipeline, "targets"):
        _, weights = pipeline.targets({name: jnp.asarray(array) for name, array in batch.items()})
        return np.roll(np.asarray(weights) > 0, 1, axis=-1), None
    if "learned" in batch:
        return batch["learned"].astype(bool), None
    for name, none in (("labels", NOT_ASKED), ("label", 0)):
        if name in batch and batch[name].shape == ids.shape and "label_mask" not in batch:
            return batch[name] != none, batch[name]
    return np.zeros(ids.shape, bool), None


def _draws(pipeline: Any) -> bool:
    """Return whether it makes what it learns from of what its model answers."""
    return hasattr(pipeline, "rollout")


@dataclass(frozen=True)
class Printer:
    """Prints tokens. labels: the names of what they may be; color: whether a terminal shows it."""

    tokenizer: Any
    labels: Sequence[str]
    color: bool

    @property
    def how(self) -> str:
        """How what is learned is shown."""
        return "green" if self.color else "in brackets"

    def tokens(self, ids: np.ndarray, learned: np.ndarray, labels: np.ndarray | None) -> None:
        """Print the texts of tokens, and what each that is learned is to become, where that is another."""
        begin, end = ("\x1b[32m", "\x1b[0m") if self.color else ("[", "]")
        pieces, inside = list[str](), False
        for at, text in enumerate(self._texts(ids.tolist())):
            if learned[at] != inside:
                pieces.append(end if inside else begin)
            elif at:
                pieces.append("·")
            inside = bool(learned[at])
            pieces.append(_escape(text))
            if labels is not None and inside:
                pieces.append(f"->{self.name(int(labels[at]), token=True)}")
        line, encoding = "".join([*pieces, end if inside else ""]), sys.stdout.encoding or "utf-8"
        print_once(line.encode(encoding, "replace").decode(encoding))

    def name(self, label: int, token: bool = False) -> str:
        """Return what a label says: one of `labels`, which tokens have from 1 on, negative or not; or a token."""
        if self.labels:
            return self.labels[abs(label) - 1 if token else label]
        return _escape(self.tokenizer.decode([label])) if token else str(label)

    def _texts(self, ids: list[int]) -> list[str]:
        """Return the text of each token: a character of several is all in the last."""
        texts = []
        for at in range(len(ids)):
            first = max(0, at - WINDOW)
            before, whole = (self.tokenizer.decode(ids[first:stop]) for stop in (at, at + 1))
            texts.append("" if whole.endswith(PART) else whole[len(before.rstrip(PART)) :])
        return texts


def _escape(text: str) -> str:
    """Return a text that moves no cursor: a line end is written, and ends the line too."""
    shown = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
    return shown.replace("\n", "\\n\n")
