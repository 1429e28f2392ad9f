# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Every setting of a run, with its unit. Each is a flag of train.py too: learning_rate, --learning-rate."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import optax

from my_project.model import T5Config


@dataclass(frozen=True)
class Data:
    """What is learned: a target text for each source text. See examples() in pipeline.py."""

    pairs_file: str = ""  # JSON lines; none: docstrings of Python's library, and their first words
    source_field: str = "source"  # of a line of it
    target_field: str = "target"  # of a line of it
    prefix: str = ""  # put before each source, such as "summarize: "
    tokenizer: str = "google/t5-v1_1-base"  # Hugging Face id or folder; "bytes": one token a byte
    sequence_length: int = 512  # S: tokens of a source, cut or filled up to it
    target_length: int = 128  # T: tokens of a target, likewise
    held_out: float = 0.05  # share of the pairs that is never trained on
    sample_prompts: tuple[str, ...] = ("Return the name of the file.",)  # sources


@dataclass(frozen=True)
class Optimizer:
    """AdamW: linear warm-up, then a cosine to a tenth of the peak."""

    learning_rate: float = 1e-4  # at the peak
    warmup_steps: int = 100  # optimizer steps, at most half of all
    weight_decay: float = 0.1  # of matrices, a step, times the rate
    beta1: float = 0.9  # share of the mean gradient that a step keeps
    beta2: float = 0.95  # share of the mean of its square that a step keeps
    clip_norm: float = 1.0  # largest norm of the whole gradient

    def schedule(self, steps: int) -> Callable[[jax.Array], jax.Array]:
        """Return optimizer step -> learning rate, for a run of `steps`."""
        warmup = min(self.warmup_steps, steps // 2)
        peak, first, last = (
            self.learning_rate,
            self.learning_rate / (warmup + 1),
            self.learning_rate / 10,
        )
        return optax.warmup_cosine_decay_schedule(first, peak, warmup, max(steps, 1), last)

    def transform(self, steps: int) -> optax.GradientTransformation:
        """Return the update rule for a run of `steps`."""
        return optax.chain(
            optax.clip_by_global_norm(self.clip_norm),
            optax.adamw(
                self.schedule(steps),
                b1=self.beta1,
                b2=self.beta2,
                weight_decay=self.weight_decay,
                mask=matrices,
            ),
        )


def matrices(params: Any) -> Any:
    """Return True for kernels and embeddings, False for biases and scales."""
    decayed = ("kernel", "embedding")
    return jax.tree_util.tree_map_with_path(lambda path, _: path[-1].key in decayed, params)


@dataclass(frozen=True)
class Train:
    """How long, how much at once, and what is kept of it."""

    steps: int = 10_000  # optimizer steps
    batch_size: int = 64  # examples of one step, over all devices
    micro_batches: int = 1  # parts of a batch, computed one after the other
    log_every: int = 10  # steps
    eval_every: int = 1_000  # steps
    save_every: int = 500  # steps
    keep: int = 2  # checkpoints
    seed: int = 0  # of the parameters and of the order of the examples
    eval_examples: int = 64  # held-out examples that evaluate() in pipeline.py scores, at most
    best: tuple[str, ...] = ("rouge2", "rougeL")  # scores whose best checkpoint is kept


@dataclass(frozen=True)
class Config:
    """One run."""

    model: T5Config = field(default_factory=lambda: T5Config(dtype="bfloat16"))
    data: Data = field(default_factory=Data)
    optimizer: Optimizer = field(default_factory=Optimizer)
    train: Train = field(default_factory=Train)


TINY = Config(
    model=T5Config(
        vocab_size=384,
        embed_dim=128,
        mlp_dim=512,
        encoder_layers=2,
        decoder_layers=2,
        num_heads=8,
        head_dim=16,
        dtype="float32",
        remat="everything_saveable",
    ),
    data=Data(tokenizer="bytes", sequence_length=128, target_length=32),
    optimizer=Optimizer(learning_rate=0.003, warmup_steps=20),
    train=Train(steps=200, batch_size=16, log_every=1, eval_every=100, save_every=100),
)

PRESETS = {"full": Config(), "tiny": TINY}
