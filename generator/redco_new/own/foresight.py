"""Whether what a class gives at a place of a text follows from what stands after it, which `lm` learns to predict."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr

from redco_new.own.maker import call_user_code, read_maker
from redco_new.own.module import make_module, outputs_of
from redco_new.own.quick_programs import compiled_once, jit_quickly
from redco_new.own.roles import text_inputs
from redco_new.own.smaller import Candidate
from redco_new.render.execute import use_runtime

FORESEES = (
    "{name} sees the tokens that {recipe} learns to predict: what it gives at a place follows from later ones, so that its"
    " loss says nothing; hide these, or train what else it gives by another loss in pipeline.py"
)
LEAST = 1e-3  # of the largest number: less is the rounding of sums in another order


def foresees(small: Candidate) -> bool:
    """Return whether another last token changes what a class gives before it, in evaluation; False where inputs beside the text are not known.

    small: the class as its preset tiny has it, whose parameters are drawn
    """
    model, output = small.abstract, small.output
    (text,) = text_inputs(model, 1, output.shape[-1])
    rows = {name: _row(small, name) for name in model.inputs}
    batch = {name: np.stack([row, row]) for name, row in rows.items() if row is not None}
    if len(batch) < len(rows):
        return False
    batch[text][1, -1] = (batch[text][1, -1] + 1) % small.contents[text].below
    first, second = call_user_code(model.name, lambda: _call(small, batch))[:, :-1]
    return bool(np.abs(first - second).max() > LEAST * np.abs(first).max())


def _row(small: Candidate, name: str) -> np.ndarray | None:
    """Return an example of an input; None where its array is the user's."""
    x, content = small.abstract.inputs[name], small.contents[name]
    if content.kind == "ids":
        return np.random.default_rng(0).integers(0, content.below, x.shape).astype(x.dtype)
    if content.counts:
        return np.full(x.shape, content.counts == "ones", x.dtype)
    if content.array.startswith("np.arange(") and x.value is None:
        return np.arange(x.shape[0], dtype=x.dtype)
    return x.value if x.value is not None and content.kind == "same" else None


def _call(small: Candidate, batch: dict[str, np.ndarray]) -> np.ndarray:
    """Return what a class, made anew, gives in evaluation: of its outputs the one that is trained."""
    model = small.abstract
    maker = read_maker(model.reference, "", model.arguments)
    use_runtime()
    from redco_runtime.layout.unsharded import ignore_shardings

    @jit_quickly
    def run(batch: Any) -> jax.Array:
        module = make_module(maker, model.call, model.mode)
        outputs = outputs_of(module, model.call, model.mode, False, batch, {})
        chosen = next(x for path, x in outputs.items() if keystr(path) == small.output.source)
        return chosen.astype(jnp.float32)

    with ignore_shardings(), compiled_once():
        return np.asarray(run(batch))
