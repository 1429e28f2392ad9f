# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Every setting of a run, with its unit. Each is a flag of train.py too: learning_rate, --learning-rate."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import optax

from my_project.model import GPTConfig
from my_project.runtime.step.optimizers import clip_by_global_norm, store_moments


@dataclass(frozen=True)
class Data:
    """What is learned. See examples() in pipeline.py."""

    num_examples: int = 512  # made up, until examples() reads yours
    held_out: float = 0.05  # share of the examples that is never trained on
    sample_prompts: tuple[str, ...] = ("0", "1")  # of held-out examples that are shown


@dataclass(frozen=True)
class Optimizer:
    """How parameters follow their gradients, and how fast over the steps."""

    algorithm: Literal["adamw", "adafactor", "lion", "muon", "sgd"] = "adamw"
    # That of BERT (Devlin et al. 2018), which most models that start anew bear.
    learning_rate: float = 1e-4  # at the peak; lion takes a fifth of adamw's, sgd 100 times it
    learning_rate_decay: Literal["constant", "cosine", "linear", "wsd"] = "cosine"  # or --schedule
    final_rate: float = 0.1  # share of the peak at which that ends, as in pretraining; Trainer: 0
    warmup_steps: int = 100  # optimizer steps, at most half of all
    weight_decay: float = 0.1  # of what matrices() names, times the rate, as in pretraining
    beta1: float = 0.9  # share of the mean gradient that a step keeps; momentum of sgd
    beta2: float = 0.95  # share of its mean square kept (lion: of its mean), as in pretraining
    adam_epsilon: float = 1e-8  # added to the root of that mean, by adamw
    clip_norm: float = 1.0  # largest norm of the whole gradient
    moment_dtype: Literal["float32", "bfloat16"] = "float32"  # of these means, between steps
    ema_decay: float = 0.0  # share of the mean of all parameters that a step keeps; 0: no such mean

    def __post_init__(self) -> None:
        if self.moment_dtype == "bfloat16" and self.beta2 > 0.99:
            raise ValueError(
                "beta2: above 0.99, what a step adds is lost in a moment_dtype of bfloat16"
            )
        if self.algorithm == "muon":
            raise ValueError(
                "algorithm: this project has no Muon: `redco update --features muon` brings it"
            )

    def schedule(self, steps: int) -> Callable[[jax.Array], jax.Array]:
        """Return optimizer step -> learning rate, for a run of `steps`: a linear warm-up, then the decay."""
        warmup = min(self.warmup_steps, steps // 2)
        peak, rest = self.learning_rate, max(steps, 1) - warmup
        end = peak * self.final_rate
        fall = max(rest // 5, 1)  # of wsd: warm-up, stable, decay
        decays = {
            "constant": optax.constant_schedule(peak),
            "cosine": optax.cosine_decay_schedule(peak, rest, alpha=self.final_rate),
            "linear": optax.linear_schedule(peak, end, rest),
            "wsd": optax.linear_schedule(peak, end, fall, transition_begin=rest - fall),
        }
        rise = optax.linear_schedule(peak / (warmup + 1), peak, warmup)
        return optax.join_schedules([rise, decays[self.learning_rate_decay]], [warmup])

    def transform(self, steps: int) -> optax.GradientTransformation:
        """Return the update rule for a run of `steps`."""
        adam = optax.scale_by_adam(self.beta1, self.beta2, self.adam_epsilon)
        directions = {
            "adamw": adam,
            "adafactor": optax.chain(optax.scale_by_factored_rms(), optax.clip_by_block_rms(1.0)),
            "lion": optax.scale_by_lion(self.beta1, self.beta2),
            "sgd": optax.trace(self.beta1),
        }
        return optax.chain(
            clip_by_global_norm(self.clip_norm),
            optax.chain(
                store_moments(directions[self.algorithm], self.moment_dtype),
                optax.add_decayed_weights(self.weight_decay, matrices),
                optax.scale_by_learning_rate(self.schedule(steps)),
            ),
        )


def matrices(params: Any) -> Any:
    """Return True for what has two dims or more, False for biases and scales, those of a stack too."""

    def decays(path, leaf):
        words = jax.tree_util.keystr(path, simple=True, separator=" ").split()
        name = [word for word in words if not word.isdigit()][-1]
        layers = any(f"{stack} " in f"{' '.join(words)} " for stack in ("blocks",))
        return leaf.ndim - layers > 1 and name not in ("bias", "scale")

    return jax.tree_util.tree_map_with_path(decays, params)


@dataclass(frozen=True)
class Train:
    """How long, how much at once, and what is kept of it."""

    steps: int = 10_000  # optimizer steps
    epochs: float = 0.0  # in the place of `steps`, how often all rows are learned; 0: `steps`
    batch_size: int = 64  # examples of one step, over all devices
    micro_batches: int = 1  # parts of a batch, computed one after the other
    log_every: int = 10  # steps
    eval_every: int = 1_000  # steps
    eval_rows: int = 2_048  # held-out examples that an evaluation reads, at most; 0: all
    patience: int = 0  # evaluations without a better first of `best`, which end a run; 0: none do
    save_every: int = 500  # steps
    keep: int = 2  # newest checkpoints
    keep_every: int = 0  # steps at whose multiples a checkpoint stays besides; 0: none
    seed: int = 0  # of the parameters and of the order of the examples
    on_nan: Literal["stop", "skip"] = "stop"  # what an update does whose numbers are not sound
    max_skips: int = 10  # of these updates that are left out in a row, before the run stops
    step_timeout: float = 0.0  # seconds a step may take; 0: 20 times their median, at least 300
    silence: float = 120.0  # seconds without a word of a process, after which it is lost
    spike: float = 0.0  # a gradient's norm of this many times its mean is not sound; 0: any is
    log: tuple[str, ...] = ()  # where numbers and samples go too: tensorboard, wandb, trackio
    eval_examples: int = 64  # held-out examples that evaluate() in pipeline.py scores, at most
    best: tuple[str, ...] = ()  # scores, or loss, whose best checkpoint is kept
    label_smoothing: float = 0.0  # share of the target that is spread over all labels alike


# `remat` of the model: what its layers save for the backward pass, which else computes it again. Of these
# (MB a layer and example, over all devices): blocks/attn/out/kernel 0.008, blocks/attn/qkv/kernel 0.02,
# blocks/up/kernel 0.03, attention 0.008.
# `fit` saves the ones that spare most FLOPs for their bytes, while they fit in the memory of a device, and
# training says which; names, such as blocks/attn/out/kernel,blocks/attn/qkv/kernel, save those alone;
# nothing_saveable saves none of them, everything_saveable all that there is; offload keeps what enters a layer,
# and what attention saves, in the memory of the host.
@dataclass(frozen=True)
class Config:
    """One run."""

    model: GPTConfig = field(default_factory=GPTConfig)
    data: Data = field(default_factory=Data)
    optimizer: Optimizer = field(default_factory=Optimizer)
    train: Train = field(default_factory=Train)


TINY = Config(
    model=GPTConfig(remat="everything_saveable"),
    optimizer=Optimizer(learning_rate=0.003, warmup_steps=20),
    train=Train(
        steps=200, batch_size=16, log_every=1, eval_every=100, eval_rows=256, save_every=100
    ),
)

PRESETS = {"full": Config(), "tiny": TINY}
