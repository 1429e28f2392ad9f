"""The loss of a batch and its gradients: one weighted mean over everything in it."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, jaxprs_in_params
from jax.sharding import PartitionSpec as P

from ..base.errors import UserError
from ..base.output import print_once
from ..base.state import ModelState, PyTree
from ..layout.mesh import add_up, axes_of, free_axes, on_parts

# (model, batch, key) -> (what a pipeline's loss returns, variables after it)
Loss = Callable[[ModelState, PyTree, jax.Array], tuple[Any, PyTree]]
Terms = dict[
    str, tuple[jax.Array, float]
]  # name -> (value, factor), of what a loss returns besides


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
    if not rest or losses.shape != rest[0].shape:
        shapes = " and ".join(str(part.shape) for part in (losses, *rest[:1]))
        todo = "return losses and weights of one shape, or one number, the mean loss"
        raise UserError(f"loss in pipeline.py: what it returns has the shapes {shapes}: {todo}")
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
    rows: Sequence[str] = (),
    dtype: str = "float32",
    specs: ModelState | None = None,
) -> tuple[Any, PyTree, PyTree]:
    """Return (mean loss, its gradients, variables after it), whatever the number of micro-batches.

    `loss` is called once a micro-batch, on B / micro_batches rows of each leaf of `batch`, with the
    variables that the one before gave. Values and weights are summed over all and divided once.
    Where it returns (losses, weights, terms), name -> (value, factor), gradients are those of the
    mean loss plus each factor * value; the mean loss is then {"loss": the same without them, name:
    value of a term}. A value is one for each of the losses, of which the mean is taken with their weights,
    or one number, of which a micro-batch weighs as much as its losses do.

    rows: axes of the mesh that split the batch, if no row of it depends on another; () if one does.
        Where `data` or `expert` do, each device sums the gradients of its own rows in float32, and
        sends them once, after all micro-batches. fsdp gathers and scatters in each micro-batch, as in
        PyTorch's FSDP2 and MaxText: once would be to hold the whole model and its gradients in
        float32 on each device, which fsdp is there to avoid.
    dtype: in which gradients are sent once.
    specs: of `model`, whose loss then has the parts of it that `expert` splits, on their own devices
        (as `experts` takes them); None: `expert` reduces in each micro-batch.
    """
    sizes = free_axes()
    own_rows = ("data",) if specs is None else ("data", "expert")
    once = tuple(axis for axis in rows if axis in own_rows and sizes.get(axis, 1) > 1)
    once = once if micro_batches > 1 and _can_be_apart(loss, model, batch, key, once) else ()
    devices = math.prod(sizes[axis] for axis in once)
    keys = jax.random.split(key, (devices, micro_batches))
    if micro_batches == 1:
        (value, weight, terms, variables), gradients = _pull_back(loss, model, batch, keys[0, 0])
    elif once:
        (value, weight, grads), terms = _by_device(loss, model, batch, keys, dtype, once, specs)
        variables, gradients = model.variables, partial(_scale, grads)
    else:
        (value, weight, grads), terms, variables = _sum(loss, model, batch, keys)
        gradients = partial(_scale, grads)
    scale = 1 / jnp.where(weight > 0, weight, 1)
    means = {"loss": value, **terms} if terms else value
    return _scale(means, scale), gradients(scale), variables


def _can_be_apart(
    loss: Loss, model: ModelState, batch: PyTree, key: jax.Array, axes: tuple[str, ...]
) -> bool:
    """Return whether devices of `axes` can run a loss each on its own rows; where not, say so.

    Of an array whose rows and whose elements are split by two more axes, XLA (jaxlib 0.10) ends the
    process where a loss picks elements by index.
    """
    others = [axis for axis, size in free_axes().items() if size > 1 and axis not in axes]
    if not axes or len(others) < 2:
        return True
    if not _picks_elements(jax.make_jaxpr(loss)(model, batch, key).jaxpr):
        return True
    print_once(
        "gradients: sent in each micro-batch, not once a step: the loss picks elements by index (as jnp.take_along_axis and "
        f"optax's cross-entropy of integer labels do), which XLA cannot split over {' and '.join(others)} there; a comparison it can"
    )
    return False


def _picks_elements(jaxpr: Jaxpr) -> bool:
    """Return whether a program picks elements of each row of an array by index, outside of a shard_map."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "gather":
            numbers = eqn.params["dimension_numbers"]
            if numbers.operand_batching_dims or len(numbers.start_index_map) > 1:
                return True
        elif eqn.primitive.name != "shard_map":
            if any(map(_picks_elements, jaxprs_in_params(eqn.params))):
                return True
    return False


def _by_device(
    loss: Loss,
    model: ModelState,
    batch: PyTree,
    keys: jax.Array,
    dtype: str,
    axes: tuple[str, ...],
    specs: ModelState | None,
) -> tuple[tuple[jax.Array, jax.Array, PyTree], PyTree]:
    """Return the sums that `_sum` gives, without variables: each device of `axes` its own, then all."""

    def own(*arrays: PyTree) -> PyTree:
        return jax.tree.map(lambda x: x[None], _sum(loss, *arrays)[:2])

    def part(spec: P) -> P:
        return P(*(tuple(a for a in axes_of(entry) if a in axes) or None for entry in spec))

    def others(spec: P) -> tuple[str, ...]:
        return tuple(a for a in axes if not any(a in axes_of(entry) for entry in spec))

    def reduce(sums: jax.Array, spec: P) -> jax.Array:
        return add_up(sums.astype(dtype), 1).astype(sums.dtype) if others(spec) else sums[0]

    specs = jax.tree.map(lambda x: P(), model) if specs is None else specs
    grad_specs = jax.tree.map(lambda spec: P(others(spec) or None, *part(spec)), specs.params)
    rows = P(axes)
    run = on_parts(
        own,
        axes,
        in_specs=(jax.tree.map(part, specs), rows, rows),
        out_specs=((rows, rows, grad_specs), rows),
    )
    (value, weight, grads), terms = run(model, batch, keys)
    grads = jax.tree.map(reduce, grads, specs.params)
    return (value.sum(), weight.sum(), grads), jax.tree.map(jnp.sum, terms)


def _sum(
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


def split_rows(x: jax.Array, parts: int) -> jax.Array:
    """Return (B, ...) as (parts, B / parts, ...); each part has rows of every device: none moves."""
    return jnp.swapaxes(x.reshape(x.shape[0] // parts, parts, *x.shape[1:]), 0, 1)
