"""A function of a model, computed as the tables of sharding.py say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.sharding import PartitionSpec as P

from .entries import join_products
from .rows import BATCH, Kernel, Mark, constrain_rows

Function = Callable[..., Any]
Tree = Any  # of arrays


def follow(
    shapes: Tree, activations: Mapping[str, P], form: Any = None
) -> Callable[[Function], Function]:
    """Return a decorator: of a function of (model, batch, ...) it makes one of a stored model.

    A model is a named tuple with `params` and `frozen`; those of the function are its own, stored ones apart and padded.
    shapes: of stored parameters, without their padding.
    activations: path of a parameter -> the layout of what is computed with it.
    form: in which it is computed: Rewritten of rewritten.py, Fused of stored.py; None for its own.
    """

    def decorate(function: Function) -> Function:
        def run(model: Any, batch: Tree, *rest: Tree) -> Tree:
            def of_params(
                params: Tree, batch: Tree, frozen: Tree, others: Any, *rest: Tree
            ) -> Tree:
                return function(others._replace(params=params, frozen=frozen), batch, *rest)

            params = jax.tree.map(_cut, model.params, shapes)
            others = model._replace(params=(), frozen=())
            arguments = (params, batch, model.frozen, others, *rest)
            return run_apart(of_params, *arguments, form=form, activations=activations)

        return run

    return decorate


def run_apart(
    function: Function,
    stored: Tree,
    batch: Tree,
    *rest: Tree,
    form: Any = None,
    activations: Mapping[str, P] | None = None,
) -> Tree:
    """Return `function(params, batch, *rest)`, computed with the parts of stored parameters apart.

    activations: path of a parameter, in `stored` or a tree of `rest`, -> the layout of what is computed with it.
    form: as of `follow`.
    """
    own = jax.eval_shape(form.whole if form else lambda params: params, stored)
    jaxpr, outputs = jax.make_jaxpr(function, return_shape=True)(own, batch, *rest)
    program = join_products(form.rewrite(jaxpr.jaxpr) if form else jaxpr.jaxpr)
    closed = ClosedJaxpr(program, jaxpr.consts)

    def compute(stored: Tree, *others: Tree) -> list[jax.Array]:
        return list(form.compute(closed, form.in_form(stored), *others))

    if activations:
        computed = jax.make_jaxpr(compute)(stored, batch, *rest) if form else closed
        paths = (path_name(path) for path, _ in jax.tree.leaves_with_path(stored))
        marks: list[Mark] = [_kernel(path, activations) for path in paths]
        marks += [BATCH for _ in jax.tree.leaves(batch)]
        paths = (path_name(path[1:]) for path, _ in jax.tree.leaves_with_path(rest))
        marks += [_kernel(path, activations) for path in paths]
        program, _ = constrain_rows(computed.jaxpr, marks)
        closed = ClosedJaxpr(program, computed.consts)
    if form and not activations:
        results = compute(stored, batch, *rest)
    else:
        results = jaxpr_as_fun(closed)(*jax.tree.leaves((stored, batch, *rest)))
    return jax.tree.unflatten(jax.tree.structure(outputs), results)


def _kernel(path: str, activations: Mapping[str, P]) -> Kernel | None:
    """Return what is known of a parameter, or of a part of one that is stored as several."""
    whole, _, part = path.rpartition("/")
    name = whole if part.isdigit() and path not in activations else path
    return Kernel(name, activations[name]) if name in activations else None


def _cut(x: jax.Array, like: Any) -> jax.Array:
    """Return an array without its padding."""
    return x if x.shape == like.shape else jax.lax.slice(x, [0] * x.ndim, like.shape)


def path_name(path: tuple[Any, ...]) -> str:
    """Return a key path as text: `layers/attn/q/kernel`, without the `.value` of NNX variables."""
    names = [jax.tree_util.keystr((key,), simple=True) for key in path]
    if len(names) > 1 and isinstance(path[-1], jax.tree_util.GetAttrKey) and names[-1] == "value":
        names.pop()
    return "/".join(names)
