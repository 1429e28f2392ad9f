"""The loss of a batch and its gradients: one weighted mean over everything in it."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ..base.messages import UserError
from ..base.state import ModelState, PyTree
from ..layout.mesh import free_axes, split_rows

# (model, batch, key) -> (what a pipeline's loss returns, variables after it)
Loss = Callable[[ModelState, PyTree, jax.Array], tuple[Any, PyTree]]
# name -> (value, factor), of what a loss returns besides
Terms = dict[str, tuple[jax.Array, float]]


def weighted_sum(result: Any, valid_B: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
    """Return (sum of losses * weights, sum of weights) of what a loss returns, in float32.

    result: (losses, weights) of one shape, and terms, or a bare scalar, which counts as one value.
    valid_B: which rows count, where the losses have a first dim B; None for all.
    Raises UserError for what is none of these.
    """
    losses, weights, _ = _read(result, valid_B)
    return _sum_weighted(losses, weights), jnp.sum(weights)


def weighted_sums(
    result: Any, valid_B: jax.Array | None = None
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Return ({"loss": as `weighted_sum`, name: the same of a term}, sum of weights), of terms that are of each loss.

    A term that is one number is of its batch as a whole, and has no mean over held-out rows.
    """
    losses, weights, terms = _read(result, valid_B)
    arrays = {name: value for name, (value, _) in terms.items() if jnp.ndim(value)}
    sums = {name: _sum_weighted(x, weights) for name, x in {"loss": losses, **arrays}.items()}
    return sums, jnp.sum(weights)


def _read(result: Any, valid_B: jax.Array | None = None) -> tuple[jax.Array, jax.Array, Terms]:
    """Return (losses, weights in float32, 0 where a row does not count, terms) of what a loss returns."""
    losses, *rest = result if isinstance(result, tuple) else (result, jnp.ones(()))
    shapes = [getattr(part, "shape", type(part).__name__) for part in (losses, *rest[:1])]
    if len(shapes) < 2 or shapes[0] != shapes[1]:
        what = f"what it returns has the shapes {' and '.join(map(str, shapes))}"
        todo = "return losses and weights of one shape, or one number, the mean loss"
        raise UserError(f"loss in pipeline.py: {what}: {todo}")
    weights = rest[0].astype(jnp.float32)
    if valid_B is not None and weights.ndim:
        weights *= valid_B.reshape(-1, *[1] * (weights.ndim - 1))
    return losses, weights, rest[1] if len(rest) > 1 else {}


def _sum_weighted(values: jax.Array, weights: jax.Array) -> jax.Array:
    # Not 0 * loss: the loss of a row that does not count may be infinite.
    return jnp.sum(jnp.where(weights == 0, 0, values.astype(jnp.float32) * weights))


def mean_and_gradients(
    loss: Loss,
    model: ModelState,
    batch: PyTree,
    key: jax.Array,
    micro_batches: int,
    once: Any = None,
) -> tuple[Any, PyTree, PyTree]:
    """Return (mean loss, its gradients, variables after it), whatever the number of micro-batches.

    `loss` is called once a micro-batch, on B / micro_batches rows of each leaf of `batch`, with the
    variables that the one before gave. Values and weights are summed over all and divided once.
    Where it returns (losses, weights, terms), name -> (value, factor), gradients are those of the
    mean loss plus each factor * value; the mean loss is then {"loss": the same without them, name:
    value of a term}. A value is one for each of the losses, of which the mean is taken with their weights,
    or one number, of which a micro-batch weighs as much as its losses do.

    once: OnceAStep of once.py, where no row of the batch depends on another; None: devices send gradients in each micro-batch.
    """
    axes: tuple[str, ...] = ()
    if once and (micro_batches > 1 or once.add):
        axes = once.axes(loss, model, batch, key)
    devices = math.prod(free_axes()[axis] for axis in axes)
    keys = jax.random.split(key, (devices, micro_batches))
    if micro_batches == 1 and not axes:
        (value, weight, terms, variables), gradients = _pull_back(loss, model, batch, keys[0, 0])
    elif axes:
        (value, weight, grads), terms = once.sums(loss, model, batch, keys, axes)
        variables, gradients = model.variables, partial(_scale, grads)
    else:
        (value, weight, grads), terms, variables = sum_parts(loss, model, batch, keys)
        gradients = partial(_scale, grads)
    scale = 1 / jnp.where(weight > 0, weight, 1)
    means = {"loss": value, **terms} if terms else value
    return _scale(means, scale), gradients(scale), variables


def sum_parts(
    loss: Loss, model: ModelState, batch: PyTree, keys: jax.Array
) -> tuple[tuple[jax.Array, jax.Array, PyTree], PyTree, PyTree]:
    """Return ((sum of values, of weights, of gradients), sums of terms, variables after it).

    keys: (1, micro-batches).
    """

    def add(carry: PyTree, part: tuple[PyTree, jax.Array]) -> tuple[PyTree, PyTree]:
        sums, variables = carry
        results, gradients = _pull_back(loss, model._replace(variables=variables), *part)
        value, weight, terms, changed = results
        ones = jnp.ones(())
        return (jax.tree.map(jnp.add, sums, (value, weight, gradients(ones))), changed), terms

    zeros = (jnp.zeros(()), jnp.zeros(()), jax.tree.map(jnp.zeros_like, model.params))
    rows = jax.tree.map(lambda x: split_rows(x, keys.shape[1]), batch)
    (sums, variables), terms = jax.lax.scan(add, (zeros, model.variables), (rows, keys[0]))
    return sums, jax.tree.map(lambda x: x.sum(axis=0), terms), variables


def _pull_back(
    loss: Loss, model: ModelState, batch: PyTree, key: jax.Array
) -> tuple[tuple[jax.Array, jax.Array, PyTree, PyTree], Callable[[jax.Array], PyTree]]:
    """Return ((sum of values, of weights, of terms, variables after it), scale -> scaled gradients).

    The scale is where the backward pass starts from: it costs no pass over the gradients.
    """

    def compute(params: PyTree) -> tuple[jax.Array, Any]:
        result, changed = loss(model._replace(params=params), batch, key)
        value, weight = weighted_sum(result)
        terms, added = _terms(result)
        return value + added, (value, weight, terms, changed)

    _, pull, results = jax.vjp(compute, model.params, has_aux=True)
    return results, lambda scale: pull(scale)[0]


def _scale(sums: PyTree, scale: jax.Array) -> PyTree:
    """Return all of `sums` times `scale`."""
    return jax.tree.map(lambda x: x * scale.astype(x.dtype), sums)


def _terms(result: Any) -> tuple[dict[str, jax.Array], Any]:
    """Return the sums of what a loss returns besides losses, by their weights, and what they add."""
    losses, weights, terms = _read(result)
    weight, values = jnp.sum(weights), {}
    for name, (value, _) in terms.items():
        if jnp.shape(value) not in ((), losses.shape):
            raise UserError(
                f"loss in pipeline.py: its term {name!r} has the shape {value.shape}: give one number, or one for each "
                f"of the losses, {losses.shape}"
            )
        values[name] = _sum_weighted(value, weights) if jnp.ndim(value) else weight * value
    return values, sum(values[name] * factor for name, (_, factor) in terms.items())
