"""The examples that pipeline.py of a project makes up: the statements that make the arrays of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from redco_new.request.own_class import Input

Kind = Literal["ids", "mask", "numbers"]  # how the array of an input is made up

# Statements that put the array of an input into `example`. Nothing is padded in made-up examples,
# so that all masks are ones.
MASK = "example[{name!r}] = np.ones({shape}, bool)"
# Arrays that the target does not depend on.
UNRELATED: Mapping[Kind, str] = {
    "numbers": "example[{name!r}] = rng.normal(size={shape}).astype({dtype})",
    "ids": "example[{name!r}] = np.zeros({shape}, {dtype})",
    "mask": MASK,
}
# Arrays that have a pattern of their class. Noise is as large as the pattern of numbers, and half of
# the ids are random: with less a class would be learned at once, more would need more examples.
OF_CLASS: Mapping[Kind, str] = {
    "numbers": """\
noise = rng.normal(size={shape})
example[{name!r}] = (level + pattern.normal(size={shape}) + noise).astype({dtype})""",
    "ids": """\
ids = pattern.integers({below}, size={shape})
other = rng.integers({below}, size={shape})
ids = np.where(rng.random({shape}) < 0.5, ids, other)
example[{name!r}] = ids.astype({dtype})""",
    "mask": MASK,
}
# Arrays about a level, a standard normal number, which is the target. The logistic function brings
# the level into the range of ids. The noise is a trade: with none, copying one number would be the
# best answer; with much, an input of few numbers would not tell the level.
OF_LEVEL: Mapping[Kind, str] = {
    "numbers": """\
noise = rng.normal(size={shape})
example[{name!r}] = (level + 0.3 * noise).astype({dtype})""",
    "ids": """\
middle = {below} / (1 + np.exp(-level))
ids = np.floor(middle + rng.uniform(-2, 2, size={shape}))
example[{name!r}] = np.clip(ids, 0, {last}).astype({dtype})""",
    "mask": MASK,
}


def array_statements(
    statements: Mapping[Kind, str], inputs: Mapping[str, Input], without: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the statements that put each input but for `without` into `example`, in their order."""
    return tuple(
        statements[input_kind(x)].format(
            name=name, shape=x.shape, dtype=dtype_source(x), below=x.below, last=(x.below or 1) - 1
        )
        for name, x in inputs.items()
        if name not in without
    )


def input_kind(x: Input) -> Kind:
    """Return how the array of an input is made up."""
    return "ids" if x.below else "mask" if x.dtype == "bool" else "numbers"


def dtype_source(x: Input) -> str:
    """Return the dtype of an input as Python, which numpy alone lacks for bfloat16."""
    names = {"bfloat16": "jnp.bfloat16", "bool": "np.bool_"}
    return names.get(x.dtype, f"np.{x.dtype}")
