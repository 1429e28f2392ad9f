# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Every setting of a run, with its unit. Each is a flag of train.py too: learning_rate, --learning-rate."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import optax

from my_project.model import GPTJConfig


@dataclass(frozen=True)
class Data:
    """What is learned. See examples() in pipeline.py."""

    text_files: tuple[str, ...] = ()  # paths; none: the language reference that ships with Python
    tokenizer: str = "EleutherAI/gpt-j-6b"  # Hugging Face id or folder; "bytes": one token a byte
    sequence_length: int = 2048  # S: tokens of an example
    held_out: float = 0.05  # share of the examples that is never trained on
    sample_prompts: tuple[str, ...] = ("The ",)  # continued after each evaluation


@dataclass(frozen=True)
class Optimizer:
    """AdamW: linear warm-up, then a cosine to a tenth of the peak."""

    learning_rate: float = 1e-4  # at the peak
    warmup_steps: int = 100  # optimizer steps, at most half of all
    weight_decay: float = 0.1  # of matrices, a step, times the rate
    beta1: float = 0.9  # kept of the mean of the gradient, a step
    beta2: float = 0.95  # kept of the mean of its square, a step
    clip_norm: float = 1.0  # largest norm of the whole gradient

    def schedule(self, steps: int) -> Callable[[jax.Array], jax.Array]:
        """Optimizer step -> learning rate, over `steps` in all."""
        warmup = min(self.warmup_steps, steps // 2)
        peak, first, last = (
            self.learning_rate,
            self.learning_rate / (warmup + 1),
            self.learning_rate / 10,
        )
        return optax.warmup_cosine_decay_schedule(first, peak, warmup, max(steps, 1), last)

    def transform(self, steps: int) -> optax.GradientTransformation:
        """The update rule for a run of `steps`."""
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
    """True for kernels and embeddings, False for biases and scales."""
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


@dataclass(frozen=True)
class Config:
    """One run."""

    model: GPTJConfig = field(default_factory=lambda: GPTJConfig(dtype="bfloat16"))
    data: Data = field(default_factory=Data)
    optimizer: Optimizer = field(default_factory=Optimizer)
    train: Train = field(default_factory=Train)


TINY = Config(
    model=GPTJConfig(
        vocab_size=384,
        embed_dim=128,
        num_layers=2,
        num_heads=8,
        rotary_dim=8,
        max_positions=256,
        mlp_dim=512,
        dtype="float32",
        remat="everything_saveable",
    ),
    data=Data(tokenizer="bytes", sequence_length=128),
    optimizer=Optimizer(learning_rate=0.003, warmup_steps=20),
    train=Train(steps=200, batch_size=16, log_every=1, eval_every=100, save_every=100),
)

PRESETS = {"full": Config(), "tiny": TINY}
