"""Make and call a class of the user's own with abstract arrays: what it needs, and what it gives."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from flax import linen, nnx
from jax.extend.core import Jaxpr, jaxprs_in_params
from jax.tree_util import GetAttrKey, KeyEntry, tree_leaves_with_path

from redco_new.errors import RedcoError
from redco_new.render.execute import use_runtime
from redco_new.request.own_class import Input
from redco_new.sharding import error_advice, error_location, error_message
from redco_new.own.annotations import MESH, names_in_variables, places_arrays
from redco_new.own.find import Reference
from redco_new.own.signature import MODES, check_arguments, check_inputs
from redco_new.own.flows import Use
from redco_new.own.uses import find_uses

Path = tuple[KeyEntry, ...]  # of an array, in what a call gives
T = TypeVar("T")
# Rows of the batch that is traced, by which an output with B is recognized: more than the one row
# that broadcasts, and few, since a number that is also the first dim of another array misleads.
ROWS = 8
# The primitives of JAX that draw: those of keys of jax.random (threefry and rbg), and of gamma.
RANDOM_PRIMITIVES = {"random_bits", "random_gamma", "threefry2x32", "rng_bit_generator"}


class _Trace(NamedTuple):
    """A class made, with its collections of Linen, and a call: its program, outputs, uses of inputs."""

    model: nnx.Module
    collections: tuple[str, ...]
    program: Jaxpr
    outputs: dict[Path, jax.ShapeDtypeStruct]
    uses: dict[str, Use]


@dataclass(frozen=True)
class AbstractModel:
    """A class of the user's own, how it is made and called, and what follows from a trace of its call.

    reference: the class
    linen: whether it is of Flax Linen; it is of NNX otherwise
    arguments: of its constructor, by name
    inputs: of its call, by name
    takes_rngs: whether the constructor takes rngs
    mode: the argument of the call that tells training from evaluation, or ""
    outputs: what a call gives, path -> array with ROWS rows
    uses: of the inputs, what a call does with them
    random: whether a call draws random numbers
    collections: of Linen, that a call changes
    stateful: whether it has more than parameters, or computes otherwise in training
    shardings: its sharding annotations, in words, which a project ignores; "" if it has none
    """

    reference: Reference
    linen: bool
    arguments: Mapping[str, Any]
    inputs: Mapping[str, Input]
    takes_rngs: bool
    mode: str
    outputs: Mapping[Path, jax.ShapeDtypeStruct]
    uses: Mapping[str, Use]
    random: bool
    collections: tuple[str, ...]
    stateful: bool
    shardings: str


def build_abstract(
    reference: Reference, where: str, arguments: Mapping[str, Any], inputs: Mapping[str, Input]
) -> AbstractModel:
    """Make and call the class `reference` with abstract arrays.

    where: what gave the arguments and inputs

    Raises RedcoError for what is no Flax module, for arguments that it does not take or that it
    lacks, and for what cannot be traced, with the user's line.
    """
    cls, name = reference.value, reference.name
    if not (isinstance(cls, type) and issubclass(cls, linen.Module | nnx.Module)):
        what = f"{name} is not a Flax module, of flax.nnx or flax.linen"
        raise RedcoError("--model", what, "derive the class from nnx.Module or nn.Module")
    takes_rngs = check_arguments(where, name, inspect.signature(cls.__init__), arguments)
    mode = check_inputs(where, name, inspect.signature(cls.__call__), inputs)
    is_linen = issubclass(cls, linen.Module)

    def build() -> nnx.Module:
        if issubclass(cls, linen.Module):
            return _build_linen(cls, arguments, inputs, mode)
        return cls(**arguments, **({"rngs": nnx.Rngs(0)} if takes_rngs else {}))

    def trace(build: Callable[[], nnx.Module]) -> _Trace:
        model = nnx.eval_shape(build)
        collections = _find_collections(reference, arguments, inputs, mode) if is_linen else ()
        return _Trace(model, collections, *_trace_call(model, inputs, mode, collections))

    traced, shardings = _trace_or_ignore_shardings(name, build, trace)
    _, *states = nnx.split(traced.model, nnx.Param, nnx.RngState, ...)
    params, streams, rest = states
    if not jax.tree.leaves(params):
        raise RedcoError("--model", f"{name} has no parameters", "there is nothing to train")
    random = _draws_random(traced.program) if is_linen else bool(jax.tree.leaves(streams))
    return AbstractModel(
        reference=reference,
        linen=is_linen,
        arguments=arguments,
        inputs=inputs,
        takes_rngs=takes_rngs,
        mode=mode,
        outputs=traced.outputs,
        uses=traced.uses,
        random=random,
        collections=traced.collections,
        stateful=random or bool(mode) or bool(jax.tree.leaves(rest)),
        shardings=shardings,
    )


def call_user_code(name: str, function: Callable[[], T]) -> T:
    """Return function(), which runs the user's `name`. Raises RedcoError with the user's line."""
    try:
        return function()
    except Exception as error:  # the user's own code may raise anything
        what = f"{name} cannot be traced: {error_message(error).rstrip('.')}"
        raise RedcoError(error_location(error, name), what, error_advice(error)) from error


def abstract_batch(inputs: Mapping[str, Input], rows: int) -> dict[str, jax.ShapeDtypeStruct]:
    """Return a batch of `rows` rows, input -> ShapeDtypeStruct (rows, *shape)."""
    return {k: jax.ShapeDtypeStruct((rows, *x.shape), x.dtype) for k, x in inputs.items()}


def _build_linen(
    cls: type[linen.Module], arguments: Mapping[str, Any], inputs: Mapping[str, Input], mode: str
) -> nnx.Module:
    """Return a Linen class as an NNX module, as model.py of a project has it."""
    zeros = {name: jnp.zeros((1, *x.shape), x.dtype) for name, x in inputs.items()}
    net = nnx.bridge.ToNNX(cls(**arguments), rngs=nnx.Rngs(0))
    return net.lazy_init(**zeros, **_mode_argument(mode, False))


def _trace_or_ignore_shardings(
    name: str, build: Callable[[], nnx.Module], trace: Callable[[Callable[[], nnx.Module]], _Trace]
) -> tuple[_Trace, str]:
    """Return (trace(build), ""); or what it is without the class's shardings, and which those are.

    Raises RedcoError with the user's line.
    """
    use_runtime()
    from redco_runtime.unsharded import forget_shardings, ignore_shardings

    try:
        with jax.sharding.use_abstract_mesh(MESH):
            traced = trace(build)
        if not names_in_variables(traced.model) and not places_arrays(traced.program):
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


def _find_collections(
    reference: Reference, arguments: Mapping[str, Any], inputs: Mapping[str, Input], mode: str
) -> tuple[str, ...]:
    """Return the collections of a Linen module besides its parameters."""

    def init(batch: Any) -> Any:
        net, key = reference.value(**arguments), jax.random.key(0)
        return net.init(key, **batch, **_mode_argument(mode, False))

    variables = jax.eval_shape(init, abstract_batch(inputs, 1))
    return tuple(name for name in variables if name != "params")


def _trace_call(
    model: nnx.Module,
    inputs: Mapping[str, Input],
    mode: str,
    collections: tuple[str, ...],
) -> tuple[Jaxpr, dict[Path, jax.ShapeDtypeStruct], dict[str, Use]]:
    """Return (program, outputs, uses of inputs) of a call in training."""
    graph, *(params, rest) = nnx.split(model, nnx.Param, ...)
    batch = abstract_batch(inputs, ROWS)
    mutable = {"mutable": list(collections)} if collections else {}
    paths: list[Path] = []

    def forward(params: Any, rest: Any, batch: Any) -> list[jax.Array]:
        model = nnx.merge(graph, params, rest)
        model.train()
        outputs = dict(read_arrays(model(**batch, **_mode_argument(mode, True), **mutable)))
        paths.extend(outputs)
        return list(outputs.values())

    trace = jax.make_jaxpr(forward, return_shape=True)
    program, outputs = trace(params, rest, batch)
    sizes = [len(jax.tree.leaves(tree)) for tree in (params, rest)]
    names = [""] * sum(sizes) + sorted(batch)  # a dict is flattened in the order of its keys
    parameters = [index < sizes[0] for index in range(len(names))]
    uses = find_uses(program, names, parameters)
    return program.jaxpr, dict(zip(paths, outputs, strict=True)), uses


def read_arrays(value: Any, path: Path = ()) -> Iterator[tuple[Path, jax.Array]]:
    """Yield (path, array) of what a call gives: in trees of JAX, and in dataclasses."""
    for keys, leaf in tree_leaves_with_path(value):
        if isinstance(leaf, jax.Array):
            yield path + keys, leaf
        elif dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            for field in dataclasses.fields(leaf):
                part = getattr(leaf, field.name, None)
                yield from read_arrays(part, (*path, *keys, GetAttrKey(field.name)))


def _mode_argument(mode: str, training: bool) -> dict[str, bool]:
    """Return the argument of a call that says whether it trains; none where it has no mode."""
    return {mode: MODES[mode] == training} if mode else {}


def _draws_random(jaxpr: Jaxpr) -> bool:
    """Return whether a program draws random numbers."""
    return any(
        eqn.primitive.name in RANDOM_PRIMITIVES
        or any(map(_draws_random, jaxprs_in_params(eqn.params)))
        for eqn in jaxpr.eqns
    )
