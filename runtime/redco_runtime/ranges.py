"""Values of settings that no run can have, named before it boots."""

from typing import Any

import jax.numpy as jnp

from redco_runtime.errors import UserError

AT_LEAST_0 = (lambda value: value >= 0, "of 0 or more")
ABOVE_0 = (lambda value: value > 0, "above 0")
SEVERAL = (lambda value: value >= 2, "of 2 or more")
SHARE = (lambda value: 0 <= value < 1, "from 0 to below 1")
# Section, field -> what holds of its value, in words too. What a project has not is passed over.
RANGES = {
    ("train", "steps"): AT_LEAST_0,
    ("train", "eval_examples"): AT_LEAST_0,
    ("train", "group"): SEVERAL,  # which are compared with each other
    ("train", "kl"): AT_LEAST_0,
    ("optimizer", "learning_rate"): AT_LEAST_0,
    ("optimizer", "weight_decay"): AT_LEAST_0,
    ("optimizer", "warmup_steps"): AT_LEAST_0,
    ("optimizer", "beta1"): SHARE,
    ("optimizer", "beta2"): SHARE,
    ("optimizer", "ema_decay"): SHARE,
    ("optimizer", "clip_norm"): ABOVE_0,
}


def check_values(config: Any) -> None:
    """Raise UserError for a value that no run of any recipe can have."""
    for (section, field), (holds, words) in RANGES.items():
        value = getattr(getattr(config, section, None), field, None)
        if value is not None and not holds(value):
            raise UserError(f"--{field.replace('_', '-')}: {value}: give a number {words}")
    _check_dtype(getattr(config.model, "dtype", None))
    length = getattr(config.data, "sequence_length", None)
    most = getattr(config.model, "max_positions", None)
    if length is not None and most is not None and not 0 < length <= most:
        raise UserError(
            f"--sequence-length: {length} tokens, and the model has places for {most}: give fewer, or more --max-positions"
        )


def _check_dtype(name: object) -> None:
    """Raise UserError for what is the name of no dtype."""
    if isinstance(name, str):
        try:
            jnp.dtype(name)
        except TypeError:
            raise UserError(
                f"--dtype: no dtype is called {name!r}: give bfloat16 or float32"
            ) from None
