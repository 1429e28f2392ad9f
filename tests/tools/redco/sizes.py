"""What both sides train: the size of the model, of the batch and of the run, and the data."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass, fields

import numpy as np


@dataclass(frozen=True)
class Sizes:
    """Sizes of one benchmark, in elements; both sides train in fp32 with AdamW."""

    V: int = 8192  # vocab
    S: int = 256  # tokens of a sequence
    B: int = 8  # sequences of the global batch
    D: int = 512  # embed
    F: int = 2048  # mlp
    N: int = 8  # heads
    L: int = 8  # layers
    rotary: int = 16  # dims of a head that rotate: a quarter, as in GPT-J-6B
    steps: int = 10  # timed steps, after COMPILING and WARM_UP

    @classmethod
    def add_flags(cls, parser: argparse.ArgumentParser) -> None:
        """Adds one `--NAME INT` a field, with the field's default."""
        for field in fields(cls):
            parser.add_argument(f"--{field.name}", type=int, default=field.default)

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Sizes:
        """The sizes among the parsed flags of `add_flags`."""
        return cls(**{field.name: getattr(arguments, field.name) for field in fields(cls)})

    def flags(self) -> list[str]:
        """The command line that gives these sizes to a side."""
        return [part for name, size in asdict(self).items() for part in (f"--{name}", str(size))]


SHARDS = 4  # virtual devices, all on the model axis: what the project is generated with
# Redco compiles its step in the first call and again in the second; no side does in the third.
COMPILING = 2
WARM_UP = 2
LEARNING_RATE = 1e-4
WEIGHT_DECAY = 0.01
CLIP_NORM = 1.0


def calls(sizes: Sizes) -> int:
    """How often a side calls its step: the compiles, the warm-up and the timed steps."""
    return COMPILING + WARM_UP + sizes.steps


def tokens(sizes: Sizes, length: int) -> np.ndarray:
    """Random tokens for one epoch of `calls(sizes)` batches: int32 (calls * B, length)."""
    shape = (calls(sizes) * sizes.B, length)
    return np.random.default_rng(0).integers(0, sizes.V, shape, dtype=np.int32)
