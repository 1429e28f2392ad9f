"""What the gradients of a loss need of a device's memory, from a trace of them; nothing is compiled.

The arrays that a model names, by `lay_out` and `attention`, may be saved for the backward pass: of each
name their bytes, and what they spare. All else that a step has at once is counted beside them.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import Jaxpr, Literal, jaxprs_in_params

from ..base.state import ModelState, PyTree
from ..layout.mesh import axes_of
from ..nn.layers import LOGITS, saving
from .flops import equation_flops
from .gradients import Loss, weighted_sum

Makers = dict[Any, Any]  # a variable of a program -> the equation that makes it


@dataclass(frozen=True)
class Saving:
    """Arrays of one name in the layers of a model."""

    name: str
    size: int  # their bytes on a device
    flops: int  # what a device computes to make them again


@dataclass(frozen=True)
class Needs:
    """What a step needs of a device's memory."""

    savings: tuple[Saving, ...]  # those first that spare most FLOPs for their bytes
    size: int  # bytes of all else that is live at once, beside the state


def measure(
    loss: Loss, model: ModelState, batch: PyTree, key: Any, rows: int, experts: Any = None
) -> Needs:
    """Return what the gradients of `loss` need, by a trace of them that saves all named arrays.

    Arrays or ShapeDtypeStructs; nothing is computed. rows: parts of a batch, each on its devices.
    experts: the module expert_memory, for a model that has some.
    """

    def value(params: PyTree, model: ModelState, batch: PyTree, key: jax.Array) -> jax.Array:
        return weighted_sum(loss(model._replace(params=params), batch, key)[0])[0]

    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (model, batch, key))
    mesh = jax.sharding.get_abstract_mesh()
    devices, cut = mesh.size, mesh.shape.get("context", 1)
    # On no device: a kernel does not say what it computes, the formula in its place does.
    with jax.sharding.use_abstract_mesh(mesh.update(abstract_device=None)), saving(None):
        jaxpr = jax.make_jaxpr(jax.grad(value))(shapes[0].params, *shapes).jaxpr
    sizes: dict[str, list[int]] = {}
    for eqn, parts in layer_loops(jaxpr):
        for name, size, flops in _stacks(eqn, max(rows // parts, 1), experts):
            total = sizes.setdefault(name, [0, 0])
            copies = 2 if cut > 1 and name.endswith("H") else 1  # of heads, in another order
            total[0], total[1] = total[0] + copies * size, total[1] + flops * parts // devices
    savings = [Saving(name, *total) for name, total in sizes.items() if total[1]]
    savings += _logits(jaxpr, rows, devices)
    savings.sort(key=lambda one: one.flops / one.size, reverse=True)
    unnamed = sizes.get("", [0, 0])[0] + stacks_around(jaxpr)
    working = _working_size(jaxpr, shapes[0].parameters, rows, devices // rows // cut, experts)
    return Needs(tuple(savings), unnamed + working)


def _logits(jaxpr: Jaxpr, rows: int, devices: int) -> Iterator[Saving]:
    """Yield what it is to save logits that a loss makes in chunks, in a loop forward and one backward.

    Saved, they are there at once, and their gradients too.
    """
    size = flops = 0
    for loop, parts in _chunk_loops(jaxpr):
        (body,) = jaxprs_in_params(loop.params)
        makers = makers_of(body)
        for maker in body.eqns:
            if maker.primitive.name == "name":
                chunks = loop.params["length"] * parts
                size += chunks * bytes_of(maker.outvars[0])
                flops += chunks * product_flops(maker, makers)
    if size:
        yield Saving(LOGITS, size // devices, flops // 2 // devices)


def _stacks(eqn: Any, rows: int, experts: Any) -> Iterator[tuple[str, int, int]]:
    """Yield (name, bytes on a device, FLOPs on all) of each stack that a loop leaves; "" for no name."""
    (body,) = jaxprs_in_params(eqn.params)
    makers = makers_of(body)
    layouts = split_parts(eqn, body, makers)
    rooms = experts.rooms(body, layouts) if experts else {}
    for inner, outer in by_step(body.outvars, eqn.outvars):
        inner = unrounded(inner, makers)
        size = bytes_of(outer) // layouts.get(inner, rows)
        size += int(size * rooms.get(inner.aval.shape[:1], 0))
        maker = makers.get(inner)
        if maker is not None and maker.primitive.name == "name":
            yield maker.params["name"], size, eqn.params["length"] * product_flops(maker, makers)
        else:
            yield "", size, 0


def _working_size(jaxpr: Jaxpr, params: PyTree, rows: int, inner: int, experts: Any) -> int:
    """Return about how many bytes of a device a step works with at once, besides what it saves.

    inner: parts of the kernels of a layer. Counted high, by programs that XLA compiled for H100 and
    TPU: the arrays of a layer with their gradients; its parameters and the next one's, gathered, and its
    experts; those outside of layers whole, with their gradients; logits in three copies.
    """
    layer, stacked, devices = 0, 0, jax.sharding.get_abstract_mesh().size
    for eqn, parts in layer_loops(jaxpr):
        (body,), length = jaxprs_in_params(eqn.params), eqn.params["length"]
        some = max(rows // parts, 1)
        activations = sum(size for _, size, _ in _stacks(eqn, some, experts)) // length
        parameters = sum(bytes_of(outer) for _, outer in by_step(body.invars, eqn.invars))
        routed, own = experts.working_size(eqn) if experts else (0, 0)
        layer = max(layer, 2 * activations + 2 * (parameters // length - own) // inner + routed)
        stacked += parameters * parts
    others = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params)) - stacked
    return layer + 2 * max(others, 0) // inner + 3 * _largest(jaxpr) // devices


def _largest(jaxpr: Jaxpr) -> int:
    """Return the bytes of the largest array that is made outside of layers, such as logits."""
    largest, stacks = 0, {var for eqn, _ in layer_loops(jaxpr) for var in eqn.outvars}
    for eqn in jaxpr.eqns:
        inputs = {var for var in eqn.invars if not isinstance(var, Literal)}
        if not stacks & {*inputs, *eqn.outvars}:  # no loop over layers, forward or backward
            outputs: list[Any] = eqn.outvars  # jax types their avals as the base of all values
            sizes = [bytes_of(var) for var in outputs if len(var.aval.shape) == 3]
            bodies = jaxprs_in_params(eqn.params)
            inner = [_largest(body) * shard_parts(eqn, body) for body in bodies]
            largest = max([largest, *sizes, *inner])
    return largest


def makers_of(body: Jaxpr) -> Makers:
    """Return the equation that makes each variable of a program."""
    return {var: maker for maker in body.eqns for var in maker.outvars}


def layer_loops(jaxpr: Jaxpr) -> Iterator[tuple[Any, int]]:
    """Yield the loops over layers, forward: those whose body names arrays; as `_loops` does."""
    return _loops(jaxpr, lambda names: bool(names - {LOGITS}))


def _chunk_loops(jaxpr: Jaxpr) -> Iterator[tuple[Any, int]]:
    """Yield the loops that name logits, as `_loops` does."""
    return _loops(jaxpr, lambda names: LOGITS in names)


def _loops(
    jaxpr: Jaxpr, wanted: Callable[[set[str]], bool], parts: int = 1
) -> Iterator[tuple[Any, int]]:
    """Yield the loops by the names of arrays in them, and into how many parts a shard_map around splits arrays."""
    for eqn in jaxpr.eqns:
        for body in jaxprs_in_params(eqn.params):
            names = {one.params["name"] for one in body.eqns if one.primitive.name == "name"}
            if eqn.primitive.name == "scan" and wanted(names):
                yield eqn, parts
            else:
                yield from _loops(body, wanted, parts * shard_parts(eqn, body))


def stacks_around(jaxpr: Jaxpr) -> int:
    """Return the bytes that the loops leave which go over layers several times, as micro-batches in stages do."""
    size = 0
    for eqn in jaxpr.eqns:
        for body in jaxprs_in_params(eqn.params):
            if any(layer_loops(body)):
                left = by_step(body.outvars, eqn.outvars) if eqn.primitive.name == "scan" else ()
                size += sum(bytes_of(outer) for _, outer in left) + stacks_around(body)
    return size


def split_parts(eqn: Any, body: Jaxpr, makers: Makers) -> dict[Any, int]:
    """Return into how many parts the devices split the arrays of a loop's body that are laid out.

    What a layer takes over lies as what it hands on.
    """
    parts: dict[Any, int] = {}
    for one in body.eqns:
        if one.primitive.name == "sharding_constraint":
            mesh, spec = one.params["sharding"].mesh.shape, one.params["sharding"].spec
            count = math.prod(mesh[axis] for entry in spec for axis in axes_of(entry))
            parts[unrounded(one.invars[0], makers)] = parts[one.outvars[0]] = count
    entering, leaving = _whole(body.invars, eqn.invars), _whole(body.outvars, eqn.outvars)
    constants = len(entering) - len(leaving)
    for first, last in zip(entering[constants:], leaving, strict=True):
        if (last := unrounded(last, makers)) in parts:
            parts[first] = parts[last]
    return parts


def _whole(inside: Iterable[Any], outside: Iterable[Any]) -> list[Any]:
    """Return what a loop has whole in each step: constants and what it carries, in this order."""
    return [a for a, b in zip(inside, outside, strict=True) if a.aval.ndim == b.aval.ndim]


def by_step(inside: Iterable[Any], outside: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs of what a loop has a part of in each step: it has a dim more outside."""
    for inner, outer in zip(inside, outside, strict=True):
        if outer.aval.ndim > inner.aval.ndim:
            yield inner, outer


def unrounded(var: Any, makers: Makers) -> Any:
    """Return a variable as it was before JAX rounded it to be saved, which changes nothing."""
    while var in makers and makers[var].primitive.name == "reduce_precision":
        (var,) = makers[var].invars
    return var


def product_flops(maker: Any, makers: Makers) -> int:
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


def shard_parts(eqn: Any, body: Jaxpr) -> int:
    """Return into how many parts a shard_map splits arrays before `body`; 1 for another equation."""
    if eqn.primitive.name != "shard_map":
        return 1
    pairs = zip(eqn.invars, body.invars, strict=True)
    return max((bytes_of(a) // bytes_of(b) for a, b in pairs), default=1)


def bytes_of(var: Any) -> int:
    """Return the bytes of an array, on all devices together where it is split."""
    return math.prod(var.aval.shape) * var.aval.dtype.itemsize
