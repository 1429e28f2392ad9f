"""What several recipes say alike: presets, settings, words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from redco_new.render.python import print_data

TINY_TEXT: dict[str, dict[str, Any]] = {
    "data": {"tokenizer": "bytes", "sequence_length": 128},
    "optimizer": {"learning_rate": 3e-3, "warmup_steps": 20},
    "train": {
        "steps": 200,
        "batch_size": 16,
        "log_every": 1,
        "eval_every": 100,
        "eval_rows": 256,  # a thirtieth of the time of these steps, on a CPU
        "save_every": 100,
    },
}

MANUAL = "on the language reference that ships with Python"


@dataclass(frozen=True)
class Rate:
    """A learning rate at its peak, and why it is that: whose default, or which paper's."""

    value: float
    reason: str

    @property
    def python(self) -> str:
        """It as people write it: 2e-5."""
        return f"{self.value:.0e}".replace("e-0", "e-")


NEW = Rate(1e-4, "That of BERT (Devlin et al. 2018), which most models that start anew bear")
TUNED = Rate(5e-5, "That of transformers' Trainer, among those of BERT (Devlin et al. 2018)")
ADAPTER = Rate(
    2e-4, "That of LoRA for GPT-2 and 3 (Hu et al. 2021), of QLoRA (Dettmers et al. 2023)"
)
TUNED_ADAPTER = Rate(5e-4, "That of LoRA for RoBERTa (Hu et al. 2021)")


@dataclass(frozen=True)
class Setting:
    """A further field of the section `train` of config.py.

    default: a bool, a number, a text, or a tuple of texts.
    comment: what it is, behind it.
    choices: the texts that it may be; () for any.
    """

    name: str
    default: Any
    comment: str
    choices: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """It as Python."""
        kind = "tuple[str, ...]" if isinstance(self.default, tuple) else type(self.default).__name__
        if self.choices:
            kind = f"Literal[{', '.join(map(print_data, self.choices))}]"
        long = type(self.default) is int and self.default >= 10_000
        value = f"{self.default:_}" if long else print_data(self.default)
        return f"{self.name}: {kind} = {value}  # {self.comment}"


SMOOTHING = Setting(
    "label_smoothing", 0.0, "share of the target that is spread over all labels alike"
)


def scored(*best: str, examples: int = 64) -> tuple[Setting, ...]:
    """Return the settings of scores, `best` those whose best checkpoint is kept."""
    what = "held-out examples that evaluate() in pipeline.py scores, at most"
    return (
        Setting("eval_examples", examples, what),
        Setting("best", best, "scores, or loss, whose best checkpoint is kept"),
    )


def pair_example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    """Return an example of two chats: input_ids and said, each (2 length,)."""
    said = np.repeat(np.array([1, 3], np.uint8), length)  # the chosen chat, the rejected one
    return {"input_ids": np.zeros(2 * length, np.int32), "said": said}


def opinion_example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    """Return an example of a chat that is good or not: input_ids and said, each (length,)."""
    return {"input_ids": np.zeros(length, np.int32), "said": np.ones(length, np.uint8)}


def text_example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    """Return an example of one text: input_ids and mask, each (length,)."""
    return {"input_ids": np.zeros(length, np.int32), "mask": np.ones(length, bool)}


def captioned_example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    """Return an example of a picture, (image_size, image_size, 3), and its caption, (caption_length,)."""
    size, bytes_ = sizes["image_size"], sizes["caption_length"]
    return {"pixels": np.zeros((size, size, 3), np.uint8), "caption": np.zeros(bytes_, np.int32)}
