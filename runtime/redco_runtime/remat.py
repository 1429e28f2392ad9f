"""What the forward pass saves for the backward pass, and what that computes again: it follows the memory.

A model names the results of its products, by `lay_out` and `attention`. Of those that the backward
pass needs, the ones that spare most FLOPs for the bytes they take are saved, while they fit.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
from jax.experimental import multihost_utils
from jax.extend.core import Jaxpr, Literal, jaxprs_in_params

from redco_runtime.errors import UserError
from redco_runtime.flops import equation_flops
from redco_runtime.gradients import Loss, weighted_sum
from redco_runtime.mesh import axes_of, free_axes
from redco_runtime.state import ModelState, PyTree, TrainState

FIT = "fit"  # as many of the named arrays as the memory of a device has room for
POLICIES = (
    "nothing_saveable",
    "everything_saveable",
    "dots_saveable",
)  # of jax.checkpoint_policies
# Bytes of a device that does not say, such as a CPU: those of a TPU v5e, the smallest in common use.
UNKNOWN = 16 * 10**9
# The share of the memory that is left free: kernels' own workspace, and what lies in between.
FREE = 0.1

_NAMES: ContextVar[tuple[str, ...] | None] = ContextVar("names", default=())  # None: all names


@dataclass(frozen=True)
class Saving:
    """Arrays of one name in the layers of a model.

    size: their bytes on a device. flops: what a device computes to make them again.
    """

    name: str
    size: int
    flops: int


@dataclass(frozen=True)
class Needs:
    """What a step needs of a device's memory.

    savings: of the names that the backward pass needs, those first that spare most FLOPs for their
    bytes. size: bytes of all else that is live at once, beside the state.
    """

    savings: tuple[Saving, ...]
    size: int


def saved(remat: str) -> Callable[..., Any]:
    """Return the policy of jax.checkpoint that a setting asks for.

    remat: one of POLICIES, names of arrays with commas between them, or FIT: those that `fit` chose,
    none outside of a loss that it made.
    """
    policies = jax.checkpoint_policies
    if remat in POLICIES:
        return getattr(policies, remat)
    names = _NAMES.get()
    if names is None:
        return policies.save_any_names_but_these()
    return policies.save_only_these_names(*(names if remat == FIT else remat.split(",")))


def fit(loss: Loss, remat: str, used: int, rows: int) -> Loss:
    """Return `loss`, which saves what `remat` says, or by FIT what the memory of a device has room for.

    used: bytes on each device of what is there besides, as `state_size` counts them. rows: into how
    many parts the devices split a batch.
    The choice is made where the loss is traced, by the shapes of its batch, and is said in a line.
    Raises UserError there if `remat` names what the backward pass does not need.
    """
    if remat in POLICIES:
        return loss
    left = room(used) if remat == FIT else 0

    def fitted(model: ModelState, batch: PyTree, key: jax.Array) -> tuple[Any, PyTree]:
        needs = measure(loss, model, batch, key, rows)
        if remat == FIT:
            names = choose(needs.savings, left - needs.size)
            _say(needs.savings, names)
        else:
            names = tuple(remat.split(","))
            check_names(names, needs.savings)
        with _saving(names):
            return loss(model, batch, key)

    return fitted


def choose(savings: tuple[Saving, ...], left: int) -> tuple[str, ...]:
    """Return the names, in their order, of those that fit in `left` bytes."""
    names = []
    for saving in savings:
        if saving.size <= left:
            names.append(saving.name)
            left -= saving.size
    return tuple(names)


def check_names(names: tuple[str, ...], savings: tuple[Saving, ...]) -> None:
    """Raise UserError for a name that saves nothing."""
    possible = [saving.name for saving in savings]
    for name in names:
        if name not in possible:
            raise UserError(
                f"--remat: {name!r} is no array that the backward pass needs: give {FIT}, "
                f"{', '.join(POLICIES)}, or some of {','.join(possible)}"
            )


def device_memory() -> int:
    """Return the bytes that a device of the mesh in place has for arrays, the same in all processes."""
    here = [
        d for d in jax.sharding.get_mesh().devices.flat if d.process_index == jax.process_index()
    ]
    size = (memory_of(here[0]) if here else 0) or UNKNOWN
    # In MB: float32, which every platform sends, holds such numbers whole.
    every = multihost_utils.process_allgather(jax.numpy.float32(size // 10**6))
    return int(every.min()) * 10**6


def memory_of(device: jax.Device) -> int:
    """Return the bytes that a device has for arrays; 0 where it does not say, such as a CPU."""
    return int((device.memory_stats() or {}).get("bytes_limit", 0))


def state_size(state: TrainState, micro_batches: int) -> int:
    """Return the bytes on each device of a state, and of gradients: of a micro-batch, and their sum."""

    return size_on_device(state) + gradient_size(state, micro_batches)


def gradient_size(state: TrainState, micro_batches: int) -> int:
    """Return the bytes on each device of the gradients of a micro-batch, and of their sum."""
    return size_on_device(state.params) * min(micro_batches, 2)


def size_on_device(abstract: PyTree) -> int:
    """Return the bytes on each device of ShapeDtypeStructs with shardings."""
    leaves = jax.tree.leaves(abstract)
    parts = (math.prod(leaf.sharding.shard_shape(leaf.shape)) for leaf in leaves)
    return sum(part * leaf.dtype.itemsize for part, leaf in zip(parts, leaves, strict=True))


def room(used: int) -> int:
    """Return the bytes of a device that are left beside `used`, and beside those that stay free."""
    return int(device_memory() * (1 - FREE)) - used


def measure(loss: Loss, model: ModelState, batch: PyTree, key: Any, rows: int) -> Needs:
    """Return what the gradients of `loss` need, by a trace of them that saves all named arrays.

    Arrays or ShapeDtypeStructs; nothing is computed. rows: parts of a batch, each on its devices.
    """

    def value(params: PyTree, model: ModelState, batch: PyTree, key: jax.Array) -> jax.Array:
        return weighted_sum(loss(model._replace(params=params), batch, key)[0])[0]

    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (model, batch, key))
    mesh = jax.sharding.get_abstract_mesh()
    devices = math.prod(free_axes().values())
    rows //= mesh.size // devices  # a shard_map has split the batch already
    # On no device: a kernel does not say what it computes, the formula in its place does.
    with jax.sharding.use_abstract_mesh(mesh.update(abstract_device=None)), _saving(None):
        jaxpr = jax.make_jaxpr(jax.grad(value))(shapes[0].params, *shapes).jaxpr
    sizes: dict[str, list[int]] = {}
    for eqn in _layer_loops(jaxpr):
        for name, size, flops in _stacks(eqn, rows):
            total = sizes.setdefault(name, [0, 0])
            total[0], total[1] = total[0] + size, total[1] + flops // devices
    savings = [Saving(name, *total) for name, total in sizes.items() if total[1]]
    savings.sort(key=lambda saving: saving.flops / saving.size, reverse=True)
    unnamed = sizes.get("", [0, 0])[0]
    return Needs(
        tuple(savings), unnamed + _working_size(jaxpr, shapes[0].parameters, rows, devices // rows)
    )


def _layer_loops(jaxpr: Jaxpr) -> Iterator[Any]:
    """Yield the loops over layers, forward: those whose body names arrays."""
    for eqn in jaxpr.eqns:
        bodies = list(jaxprs_in_params(eqn.params))
        if eqn.primitive.name == "scan" and any(e.primitive.name == "name" for e in bodies[0].eqns):
            yield eqn
        else:
            for body in bodies:
                yield from _layer_loops(body)


def _stacks(eqn: Any, rows: int) -> Iterator[tuple[str, int, int]]:
    """Yield (name, bytes on a device, FLOPs on all) of each stack that a loop leaves; "" for no name."""
    (body,) = jaxprs_in_params(eqn.params)
    makers = {var: maker for maker in body.eqns for var in maker.outvars}
    layouts = {
        _unrounded(user.invars[0], makers): user.params["sharding"]
        for user in body.eqns
        if user.primitive.name == "sharding_constraint"
    }
    for inner, outer in _by_step(body.outvars, eqn.outvars):
        inner, size = _unrounded(inner, makers), _size(outer) // rows
        if inner in layouts:
            mesh, spec = layouts[inner].mesh.shape, layouts[inner].spec
            size = _size(outer) // math.prod(mesh[a] for entry in spec for a in axes_of(entry))
        maker = makers.get(inner)
        if maker is not None and maker.primitive.name == "name":
            yield maker.params["name"], size, eqn.params["length"] * _flops(maker, makers)
        else:
            yield "", size, 0


def _by_step(inside: Iterable[Any], outside: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs of what a loop has a part of in each step: it has a dim more outside."""
    for inner, outer in zip(inside, outside, strict=True):
        if outer.aval.ndim > inner.aval.ndim:
            yield inner, outer


def _unrounded(var: Any, makers: dict[Any, Any]) -> Any:
    """Return a variable as it was before JAX rounded it to be saved, which changes nothing."""
    while var in makers and makers[var].primitive.name == "reduce_precision":
        (var,) = makers[var].invars
    return var


def _flops(maker: Any, makers: dict[Any, Any]) -> int:
    """Return the FLOPs of the products between an array with a name and the next ones before it."""
    todo, done, total = [*maker.invars], set(), 0
    while todo:
        atom = todo.pop()
        before = None if isinstance(atom, Literal) else makers.get(atom)
        if before is not None and before.primitive.name != "name" and id(before) not in done:
            done.add(id(before))
            total += equation_flops(before)
            todo += before.invars
    return total


def _working_size(jaxpr: Jaxpr, params: PyTree, rows: int, inner: int) -> int:
    """Return about how many bytes of a device a step works with at once, besides what it saves.

    inner: parts of the dims inside a layer. Counted high, by programs that XLA compiled for H100 and
    TPU: the arrays of a layer with their gradients; its parameters and the next one's, gathered; those
    outside of layers whole, with their gradients; logits in three copies.
    """
    layer = stacked = 0
    for eqn in _layer_loops(jaxpr):
        (body,), length = jaxprs_in_params(eqn.params), eqn.params["length"]
        activations = sum(size for _, size, _ in _stacks(eqn, rows)) // length
        parameters = sum(_size(outer) for _, outer in _by_step(body.invars, eqn.invars))
        layer = max(layer, 2 * activations + 2 * parameters // length // inner)
        stacked += parameters
    others = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params)) - stacked
    return layer + 2 * others // inner + 3 * _largest(jaxpr) // (rows * inner)


def _largest(jaxpr: Jaxpr) -> int:
    """Return the bytes of the largest array that is made outside of layers, such as logits."""
    largest, stacks = 0, {var for eqn in _layer_loops(jaxpr) for var in eqn.outvars}
    for eqn in jaxpr.eqns:
        inputs = {var for var in eqn.invars if not isinstance(var, Literal)}
        if not stacks & {*inputs, *eqn.outvars}:  # no loop over layers, forward or backward
            outputs: list[Any] = eqn.outvars  # jax types their avals as the base of all values
            sizes = [_size(var) for var in outputs if len(var.aval.shape) == 3]
            inner = [_largest(body) * _parts(eqn, body) for body in jaxprs_in_params(eqn.params)]
            largest = max([largest, *sizes, *inner])
    return largest


def _parts(eqn: Any, body: Jaxpr) -> int:
    """Return into how many parts a shard_map splits arrays before `body`; 1 for another equation."""
    if eqn.primitive.name != "shard_map":
        return 1
    return max(_size(a) // _size(b) for a, b in zip(eqn.invars, body.invars, strict=True))


def _size(var: Any) -> int:
    return math.prod(var.aval.shape) * var.aval.dtype.itemsize


@contextmanager
def _saving(names: tuple[str, ...] | None) -> Iterator[None]:
    token = _NAMES.set(names)
    try:
        yield
    finally:
        _NAMES.reset(token)


@functools.cache
def _say(savings: tuple[Saving, ...], names: tuple[str, ...]) -> None:
    """Print which arrays are saved, once by process 0."""
    if jax.process_index() == 0:
        size = sum(saving.size for saving in savings if saving.name in names)
        again = [saving.name for saving in savings if saving.name not in names]
        rest = f"; computed again: {', '.join(again)}" if again else ""
        print(
            f"remat: {size / 1e9:.1f} GB saved: {', '.join(names) or 'nothing'}{rest}", flush=True
        )
