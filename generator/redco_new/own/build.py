"""Make and call a class of the user's own with abstract arrays: what it needs, and what it gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen, nnx
from jax.extend.core import Jaxpr, jaxprs_in_params
from jax.tree_util import keystr, tree_leaves_with_path

from redco_new.errors import RedcoError
from redco_new.render.execute import use_runtime
from redco_new.request.own_class import BATCH, Input
from redco_new.own.annotations import MESH, names_in_variables, places_arrays
from redco_new.own.call import Call
from redco_new.own.find import Reference
from redco_new.own.maker import call_user_code, read_maker
from redco_new.own.module import Path, make_module, mode_argument, outputs_of
from redco_new.own.signature import check_inputs
from redco_new.own.flows import Notes, Use
from redco_new.own.uses import find_uses
from redco_new.own.wrapper import print_wrapper

# Rows of the batch that is traced, by which an output with B is recognized: more than the one row
# that broadcasts, and few, since a number that is also the first dim of another array misleads.
ROWS = 8
# The primitives of JAX that draw: those of keys of jax.random (threefry and rbg), and of gamma.
RANDOM_PRIMITIVES = {"random_bits", "random_gamma", "threefry2x32", "rng_bit_generator"}


class _Trace(NamedTuple):
    """A class made, with its collections of Linen, and a call: its program, outputs, notes of inputs.

    parts: graph, parameters, random streams and variables of the class
    """

    parts: tuple[Any, ...]
    collections: tuple[str, ...]
    program: Jaxpr
    outputs: dict[Path, jax.ShapeDtypeStruct]
    notes: Notes
    across: frozenset[Path]


@dataclass(frozen=True)
class AbstractModel:
    """A class of the user's own, how it is made and called, and what follows from a trace of its call.

    reference: the class, or what makes or is a module
    name: of the class
    linen: whether it is of Flax Linen; it is of NNX otherwise
    arguments: of its constructor, by name
    call: what its call gets
    takes_rngs: whether the constructor takes rngs
    mode: the argument of the call that tells training from evaluation, or ""
    outputs: what a call gives, path -> array with ROWS rows
    across: those of which another dim is as many as the rows too
    uses: of the inputs, what a call does with them
    indexes_within: whether no table is shorter than a range that indexes it
    shapes: of its parameters
    paths: of these, in the same order
    random: whether a call draws random numbers
    collections: of Linen, that a call changes
    stateful: whether it has more than parameters, or computes otherwise in training
    shardings: its sharding annotations, in words, which a project ignores; "" if it has none
    """

    reference: Reference
    name: str
    linen: bool
    arguments: Mapping[str, Any]
    call: Call
    takes_rngs: bool
    mode: str
    outputs: Mapping[Path, jax.ShapeDtypeStruct]
    across: frozenset[Path]
    uses: Mapping[str, Use]
    indexes_within: bool
    shapes: tuple[tuple[int, ...], ...]
    paths: tuple[str, ...]
    random: bool
    collections: tuple[str, ...]
    stateful: bool
    shardings: str

    @property
    def inputs(self) -> dict[str, Input]:
        """The arrays with B that its call gets, by name."""
        return self.call.inputs


def build_abstract(
    reference: Reference, where: str, arguments: Mapping[str, Any], call: Call
) -> AbstractModel:
    """Make and call what `reference` names with abstract arrays: a class, or what makes a module of it.

    where: what gave the arguments, of the constructor and of the call

    Raises RedcoError for what is no Flax module, for arguments that it does not take or that it
    lacks, and for what cannot be traced, with the user's line.
    """
    maker = read_maker(reference, where, arguments)
    cls = maker.module_class
    name, is_linen = cls.__name__, issubclass(cls, linen.Module)
    if not callable(getattr(cls, call.method, None)):
        raise RedcoError(f"{where}: method", f"{name} has no {call.method}", "give one that it has")
    mode = check_inputs(where, name, inspect.signature(getattr(cls, call.method)), call.arguments)
    if not call.inputs:
        what = f"no array of the call of {name} has a first dim {BATCH}"
        raise RedcoError(f"{where}: [inputs]", what, "give the arrays that examples have")

    def build() -> nnx.Module:
        return make_module(maker, call, mode)

    def trace(build: Callable[[], nnx.Module]) -> _Trace:
        from redco_runtime.step.variables import parts_of  # late, as below

        variables = _find_variables(maker.make, call, mode) if is_linen else {}
        _check_names(reference, name, arguments, call, variables)
        collections = tuple(key for key in variables if key != "params")
        parts = parts_of(build)
        return _Trace(parts, collections, *_trace_call(parts, call, mode, collections))

    traced, shardings = _trace_or_ignore_shardings(name, build, trace)
    _, params, streams, rest = traced.parts
    if not jax.tree.leaves(params):
        raise RedcoError("--model", f"{name} has no parameters", "there is nothing to train")
    _check_keys(name, rest)
    random = _draws_random(traced.program) if is_linen else bool(jax.tree.leaves(streams))
    return AbstractModel(
        reference=reference,
        name=name,
        linen=is_linen,
        arguments=arguments,
        call=call,
        takes_rngs=maker.takes_rngs,
        mode=mode,
        outputs=traced.outputs,
        across=traced.across,
        uses=traced.notes.uses(),
        indexes_within=traced.notes.within,
        shapes=tuple(leaf.shape for leaf in jax.tree.leaves(params)),
        paths=tuple(
            jax.tree_util.keystr(path, simple=True, separator="/")
            for path, _ in jax.tree.leaves_with_path(params)
        ),
        random=random,
        collections=traced.collections,
        stateful=random or bool(mode) or bool(jax.tree.leaves(rest)),
        shardings=shardings,
    )


def _check_keys(name: str, variables: Any) -> None:
    """Raise RedcoError where a module holds a key of jax.random, and no nnx.Rngs: it cannot be saved."""
    for path, leaf in tree_leaves_with_path(nnx.to_pure_dict(variables)):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            where = keystr(path, simple=True, separator=".")
            what = f"{name} holds a key of jax.random, in {where}, which checkpoints cannot have"
            todo = "hold nnx.Rngs, or jax.random.key_data(key), and wrap_key_data that where it is used"
            raise RedcoError("--model", what, todo)


def abstract_batch(inputs: Mapping[str, Input], rows: int) -> dict[str, jax.ShapeDtypeStruct]:
    """Return a batch of `rows` rows, input -> ShapeDtypeStruct (rows, *shape)."""
    return {k: jax.ShapeDtypeStruct((rows, *x.shape), x.dtype) for k, x in inputs.items()}


def _trace_or_ignore_shardings(
    name: str, build: Callable[[], nnx.Module], trace: Callable[[Callable[[], nnx.Module]], _Trace]
) -> tuple[_Trace, str]:
    """Return (trace(build), ""); or what it is without the class's shardings, and which those are.

    Raises RedcoError with the user's line.
    """
    use_runtime()
    from redco_runtime.layout.unsharded import forget_shardings, ignore_shardings

    try:
        with jax.sharding.use_abstract_mesh(MESH):
            traced = trace(build)
        if not names_in_variables(nnx.merge(*traced.parts)) and not places_arrays(traced.program):
            return traced, ""
    except Exception:  # what is wrong for another reason is raised again
        pass
    names: set[str] = set()

    def build_unsharded() -> nnx.Module:
        model = build()
        names.update(names_in_variables(model))
        forget_shardings(model)
        return model

    def trace_unsharded() -> _Trace:
        with ignore_shardings():
            return trace(build_unsharded)

    traced = call_user_code(name, trace_unsharded)
    return traced, f"axes {', '.join(sorted(names))}" if names else "in its code"


def _find_variables(make: Callable[[], Any], call: Call, mode: str) -> Mapping[str, Any]:
    """Return the abstract variables of a Linen module, by collection."""

    def init(batch: Any) -> Any:
        arguments = call.fill(batch) | mode_argument(mode, False)
        return make().init(jax.random.key(0), **arguments, method=call.method)

    return jax.eval_shape(init, abstract_batch(call.inputs, 1))


def _check_names(
    reference: Reference,
    name: str,
    arguments: Mapping[str, Any],
    call: Call,
    variables: Mapping[str, Any],
) -> None:
    """Raise RedcoError where a part of a Linen module has the name of an attribute of nnx.bridge.ToNNX."""
    names = {part for collection in variables.values() for part in collection}
    if both := sorted(names & {*dir(nnx.bridge.ToNNX)}):
        what = f"{name} has a part {both[0]!r}, which nnx.bridge.ToNNX, its bridge, has too"
        inputs = [*call.arguments]
        todo = print_wrapper(reference, call.method, arguments, inputs, is_linen=True)
        raise RedcoError("--model", what, todo)


def _trace_call(
    parts: tuple[Any, ...], call: Call, mode: str, collections: tuple[str, ...]
) -> tuple[Jaxpr, dict[Path, jax.ShapeDtypeStruct], Notes, frozenset[Path]]:
    """Return (program, outputs, notes of its inputs, outputs across rows) of a call in training."""
    graph, params, *rest = parts
    batch = abstract_batch(call.inputs, ROWS)
    mutable = {"mutable": list(collections)} if collections else {}
    paths: list[Path] = []

    def forward(params: Any, rest: Any, batch: Any) -> list[jax.Array]:
        model = nnx.merge(graph, params, *rest)
        outputs = outputs_of(model, call, mode, True, batch, mutable)
        paths[:] = outputs
        return list(outputs.values())

    trace = jax.make_jaxpr(forward, return_shape=True)
    program, outputs = trace(params, rest, batch)
    sizes = [len(jax.tree.leaves(tree)) for tree in (params, rest)]
    names = [""] * sum(sizes) + sorted(batch)  # a dict is flattened in the order of its keys
    parameters = [index < sizes[0] for index in range(len(names))]
    notes = find_uses(program, names, parameters)
    across = frozenset[Path]()
    if any(ROWS in x.shape[1:] for x in outputs):  # which may be a width as well
        more = jax.eval_shape(forward, params, rest, abstract_batch(call.inputs, 2 * ROWS))
        triples = zip(paths, outputs, more, strict=True)
        across = frozenset(path for path, x, y in triples if x.shape[1:] != y.shape[1:])
    return program.jaxpr, dict(zip(paths, outputs, strict=True)), notes, across


def _draws_random(jaxpr: Jaxpr) -> bool:
    """Return whether a program draws random numbers."""
    return any(
        eqn.primitive.name in RANDOM_PRIMITIVES
        or any(map(_draws_random, jaxprs_in_params(eqn.params)))
        for eqn in jaxpr.eqns
    )
