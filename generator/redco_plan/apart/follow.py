"""A function of a model, computed as the tables of sharding.py say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
from jax.sharding import PartitionSpec as P

from .entries import join_products
from .forms import evaluate, in_form, whole_array
from .rows import BATCH, constrain_rows
from .sums import add_products_first
from .stored import Apart, Tree, as_parts, path_name, put_together

Function = Callable[..., Any]


def follow(
    shapes: Tree, specs: Mapping[str, P], apart: Apart, activations: Mapping[str, P]
) -> Callable[[Function], Function]:
    """Return a decorator: of a function of (model, batch, ...) it makes one of a stored model.

    A model is a named tuple with `params`. Those of the function are the model's own; stored ones
    are apart and padded.
    shapes: of stored parameters, without their padding.
    specs: path of a stored parameter -> its layout.
    activations: path of a parameter -> the layout of what is computed with it.
    """

    def decorate(function: Function) -> Function:
        def run(model: Any, batch: Tree, *rest: Tree) -> Tree:
            def of_params(params: Tree, batch: Tree, others: Any, *rest: Tree) -> Tree:
                return function(others._replace(params=params), batch, *rest)

            params = jax.tree.map(_cut, model.params, shapes)
            others = model._replace(params=())
            arguments = (params, batch, others, *rest)
            return run_apart(
                of_params, *arguments, apart=apart, activations=activations, specs=specs
            )

        return run

    return decorate


def run_apart(
    function: Function,
    stored: Tree,
    batch: Tree,
    *rest: Tree,
    apart: Apart,
    activations: Mapping[str, P] | None = None,
    specs: Mapping[str, P] | None = None,
) -> Tree:
    """Return `function(params, batch, *rest)`, computed with the parts of stored parameters apart.

    activations: path of a parameter -> the layout of what is computed with it, on the mesh in place.
    specs: path of a stored parameter -> its layout.
    """
    own = jax.eval_shape(partial(put_together, apart=apart), stored)
    jaxpr, outputs = jax.make_jaxpr(function, return_shape=True)(own, batch, *rest)
    program = join_products(add_products_first(jaxpr.jaxpr))
    if activations:
        names = (path_name(path) for path, _ in jax.tree.leaves_with_path(own))
        marks = [*map(activations.get, names), *(BATCH for _ in jax.tree.leaves(batch))]
        others = [None] * (len(program.invars) - len(marks))
        program, _ = constrain_rows(program, [*marks, *others])
    inputs = jax.tree.leaves((as_parts(stored, apart, specs), batch, *rest), is_leaf=in_form)
    results = evaluate(program, jaxpr.consts, inputs)
    return jax.tree.unflatten(jax.tree.structure(outputs), map(whole_array, results))


def _cut(x: jax.Array, like: Any) -> jax.Array:
    """Return an array without its padding."""
    return x if x.shape == like.shape else jax.lax.slice(x, [0] * x.ndim, like.shape)
