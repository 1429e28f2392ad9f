"""What the gradients of a loss need of a device's memory, from a trace of them; nothing is compiled.

The arrays that a model names, by `lay_out` and `attention`, may be saved for the backward pass: of each
name their bytes, and what they spare. All else that a step has at once is counted beside them.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import Jaxpr, Literal, jaxprs_in_params

from redco_runtime.flops import equation_flops
from redco_runtime.gradients import Loss, weighted_sum
from redco_runtime.mesh import axes_of, free_axes
from redco_runtime.saving import LOGITS, saving
from redco_runtime.state import ModelState, PyTree


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
    with jax.sharding.use_abstract_mesh(mesh.update(abstract_device=None)), saving(None):
        jaxpr = jax.make_jaxpr(jax.grad(value))(shapes[0].params, *shapes).jaxpr
    sizes: dict[str, list[int]] = {}
    for eqn in _layer_loops(jaxpr):
        for name, size, flops in _stacks(eqn, rows):
            total = sizes.setdefault(name, [0, 0])
            total[0], total[1] = total[0] + size, total[1] + flops // devices
    savings = [Saving(name, *total) for name, total in sizes.items() if total[1]]
    savings += _logits(jaxpr, rows, devices)
    savings.sort(key=lambda one: one.flops / one.size, reverse=True)
    unnamed = sizes.get("", [0, 0])[0]
    return Needs(
        tuple(savings), unnamed + _working_size(jaxpr, shapes[0].parameters, rows, devices // rows)
    )


def _layer_loops(jaxpr: Jaxpr) -> Iterator[Any]:
    """Yield the loops over layers, forward: those whose body names arrays."""
    for eqn in jaxpr.eqns:
        bodies = list(jaxprs_in_params(eqn.params))
        if eqn.primitive.name == "scan" and {*_names(bodies[0])} - {LOGITS}:
            yield eqn
        else:
            for body in bodies:
                yield from _layer_loops(body)


def _names(jaxpr: Jaxpr) -> Iterator[str]:
    """Yield the names that a program gives to arrays."""
    return (eqn.params["name"] for eqn in jaxpr.eqns if eqn.primitive.name == "name")


def _logits(jaxpr: Jaxpr, rows: int, devices: int) -> Iterator[Saving]:
    """Yield what it is to save logits that a loss makes in chunks, in a loop forward and one backward.

    Saved, they are there at once, and their gradients too.
    """
    size = flops = 0
    for loop, parts in _chunk_loops(jaxpr):
        (body,) = jaxprs_in_params(loop.params)
        makers = {var: maker for maker in body.eqns for var in maker.outvars}
        for maker in body.eqns:
            if maker.primitive.name == "name":
                chunks = loop.params["length"] * parts
                size += chunks * _size(maker.outvars[0])
                flops += chunks * _flops(maker, makers)
    if size:
        yield Saving(LOGITS, size // devices, flops // 2 // devices)


def _chunk_loops(jaxpr: Jaxpr, parts: int = 1) -> Iterator[tuple[Any, int]]:
    """Yield the loops that name logits, and into how many parts a shard_map around them splits arrays."""
    for eqn in jaxpr.eqns:
        for body in jaxprs_in_params(eqn.params):
            if eqn.primitive.name == "scan" and LOGITS in _names(body):
                yield eqn, parts
            else:
                yield from _chunk_loops(body, parts * _parts(eqn, body))


def _stacks(eqn: Any, rows: int) -> Iterator[tuple[str, int, int]]:
    """Yield (name, bytes on a device, FLOPs on all) of each stack that a loop leaves; "" for no name."""
    (body,) = jaxprs_in_params(eqn.params)
    makers = {var: maker for maker in body.eqns for var in maker.outvars}
    layouts = _layouts(eqn, body, makers)
    rooms = _rooms(body, layouts)
    for inner, outer in _by_step(body.outvars, eqn.outvars):
        inner = _unrounded(inner, makers)
        size = _size(outer) // layouts.get(inner, rows)
        size += int(size * rooms.get(inner.aval.shape[:1], 0))
        maker = makers.get(inner)
        if maker is not None and maker.primitive.name == "name":
            yield maker.params["name"], size, eqn.params["length"] * _flops(maker, makers)
        else:
            yield "", size, 0


def _layouts(eqn: Any, body: Jaxpr, makers: dict[Any, Any]) -> dict[Any, int]:
    """Return into how many parts the devices split the arrays of a loop's body that are laid out.

    What a layer takes over lies as what it hands on.
    """
    parts: dict[Any, int] = {}
    for one in body.eqns:
        if one.primitive.name == "sharding_constraint":
            mesh, spec = one.params["sharding"].mesh.shape, one.params["sharding"].spec
            count = math.prod(mesh[axis] for entry in spec for axis in axes_of(entry))
            parts[_unrounded(one.invars[0], makers)] = parts[one.outvars[0]] = count
    entering, leaving = _whole(body.invars, eqn.invars), _whole(body.outvars, eqn.outvars)
    constants = len(entering) - len(leaving)
    for first, last in zip(entering[constants:], leaving, strict=True):
        if (last := _unrounded(last, makers)) in parts:
            parts[first] = parts[last]
    return parts


def _grouped(body: Jaxpr) -> list[Any]:
    """Return the products of groups of rows, each with a kernel of its own: those of experts."""
    return [eqn for eqn in body.eqns if eqn.primitive.name == "ragged_dot_general"]


def _rooms(body: Jaxpr, layouts: dict[Any, int]) -> dict[tuple[int, ...], float]:
    """Return {(rows of experts,): those that fill up the blocks of rows, as a share of them}."""
    rooms = {}
    for one in _grouped(body):
        from redco_runtime.experts import room  # late: only models with experts have its kernels

        if (x_RD := one.invars[0]) in layouts:
            rows = x_RD.aval.shape[0] // layouts[x_RD]
            rooms[x_RD.aval.shape[:1]] = room(rows, one.invars[1].aval.shape[0]) / rows
    return rooms


def _experts_size(eqn: Any) -> tuple[int, int]:
    """Return what a layer's experts work with besides what it names, and the bytes of their parameters.

    On a device: of each kernel two, as it is sent and as it is multiplied, in the dtype that is computed
    in, whose places its gradient takes later; the rows that go to experts and come back, with gradients.
    """
    (body,) = jaxprs_in_params(eqn.params)
    makers = {var: maker for maker in body.eqns for var in maker.outvars}
    layouts = _layouts(eqn, body, makers)
    stored = {inner for inner, _ in _by_step(body.invars, eqn.invars)}
    size, parameters, rows = 0, 0, set()
    for one in _grouped(body):
        x, kernels, y = one.invars[0], one.invars[1], one.outvars[0]
        rows |= {x, y} & {*layouts}
        if kernels not in layouts:  # stored in few bits: what they take is the least of it
            continue
        size += 2 * _size(kernels) // layouts[kernels]
        while kernels in makers and kernels not in stored:
            kernels = makers[kernels].invars[0]
        parameters += _size(kernels) if kernels in stored else 0
    rooms = _rooms(body, layouts)
    for var in rows:
        size += int(2 * _size(var) * (1 + rooms[var.aval.shape[:1]])) // layouts[var]
    return size, parameters


def _whole(inside: Iterable[Any], outside: Iterable[Any]) -> list[Any]:
    """Return what a loop has whole in each step: constants and what it carries, in this order."""
    return [a for a, b in zip(inside, outside, strict=True) if a.aval.ndim == b.aval.ndim]


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
    TPU: the arrays of a layer with their gradients; its parameters and the next one's, gathered, and its
    experts; those outside of layers whole, with their gradients; logits in three copies.
    """
    layer = stacked = 0
    for eqn in _layer_loops(jaxpr):
        (body,), length = jaxprs_in_params(eqn.params), eqn.params["length"]
        activations = sum(size for _, size, _ in _stacks(eqn, rows)) // length
        parameters = sum(_size(outer) for _, outer in _by_step(body.invars, eqn.invars))
        experts, own = _experts_size(eqn)
        layer = max(layer, 2 * activations + 2 * (parameters // length - own) // inner + experts)
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
