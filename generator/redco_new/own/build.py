"""A class of the user's, made and called with abstract arrays: what it needs, and what it gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from flax import linen, nnx
from jax.extend.core import Jaxpr, jaxprs_in_params

from redco_new.errors import RedcoError
from redco_new.request.own_class import Input
from redco_new.sharding import error_advice, error_location, error_message
from redco_new.own.find import Found
from redco_new.own.signature import MODES, check_arguments, check_inputs

T = TypeVar("T")
ROWS = 8  # of the batch that is traced
RANDOM = {"random_bits", "random_gamma", "threefry2x32", "rng_bit_generator"}


@dataclass(frozen=True)
class Made:
    """A class, its arguments and inputs, and what follows from a trace of its call.

    takes_rngs: whether the constructor does.  mode: the argument of the call that tells training
    from evaluation, or "".  outputs: what a call gives, of ShapeDtypeStructs with ROWS rows.
    random: whether a call draws random numbers.  collections: of Linen, that a call changes.
    stateful: whether there is more to it than parameters.
    """

    found: Found
    linen: bool
    arguments: Mapping[str, Any]
    inputs: Mapping[str, Input]
    takes_rngs: bool
    mode: str
    outputs: Any
    random: bool
    collections: tuple[str, ...]
    stateful: bool


def make(
    found: Found, where: str, arguments: Mapping[str, Any], inputs: Mapping[str, Input]
) -> Made:
    """Make and call the class `found`. where: what gave the arguments and inputs.

    Raises RedcoError for what is no Flax module, for arguments that it does not take or that it
    lacks, and for what cannot be traced, with the user's line.
    """
    cls = found.value
    if not (isinstance(cls, type) and issubclass(cls, linen.Module | nnx.Module)):
        what = f"{found.name} is not a Flax module, of flax.nnx or flax.linen"
        raise RedcoError("--model", what, "derive the class from nnx.Module or nn.Module")
    takes_rngs = check_arguments(where, found.name, inspect.signature(cls.__init__), arguments)
    mode = check_inputs(where, found.name, inspect.signature(cls.__call__), inputs)
    is_linen = issubclass(cls, linen.Module)

    def build() -> nnx.Module:
        if is_linen:
            return build_linen(cls, arguments, inputs, mode)
        return cls(**arguments, **({"rngs": nnx.Rngs(0)} if takes_rngs else {}))

    model = attempt(found.name, lambda: nnx.eval_shape(build))
    collections = find_collections(found, arguments, inputs, mode) if is_linen else ()
    jaxpr, outputs = call(found.name, model, inputs, mode, collections)
    _, params, streams, rest = nnx.split(model, nnx.Param, nnx.RngState, ...)
    if not jax.tree.leaves(params):
        raise RedcoError("--model", f"{found.name} has no parameters", "there is nothing to train")
    random = draws(jaxpr) if is_linen else bool(jax.tree.leaves(streams))
    stateful = random or bool(mode) or bool(jax.tree.leaves(rest))
    return Made(
        found, is_linen, arguments, inputs, takes_rngs, mode, outputs, random, collections, stateful
    )


def build_linen(
    cls: type, arguments: Mapping[str, Any], inputs: Mapping[str, Input], mode: str
) -> nnx.Module:
    """A Linen class as an NNX module, as model.py of a project has it."""
    net = nnx.bridge.ToNNX(cls(**arguments), rngs=nnx.Rngs(0))
    return net.lazy_init(**zeros(inputs, 1), **modes(mode, False))


def call(
    name: str,
    model: nnx.Module,
    inputs: Mapping[str, Input],
    mode: str,
    collections: tuple[str, ...],
) -> tuple[Jaxpr, Any]:
    """(program, outputs) of a call of an abstract model in training. Raises RedcoError."""
    graph, state = nnx.split(model)
    mutable = {"mutable": list(collections)} if collections else {}

    def forward(state: Any, batch: Any) -> Any:
        model = nnx.merge(graph, state)
        model.train()
        return model(**batch, **modes(mode, True), **mutable)

    trace = jax.make_jaxpr(forward, return_shape=True)
    jaxpr, outputs = attempt(name, lambda: trace(state, shapes(inputs, ROWS)))
    return jaxpr.jaxpr, outputs


def attempt(name: str, run: Callable[[], T]) -> T:
    """run(), which calls the user's code. Raises RedcoError, which names their line."""
    try:
        return run()
    except Exception as error:  # the user's own code may raise anything
        what = f"{name} cannot be traced: {error_message(error).rstrip('.')}"
        raise RedcoError(error_location(error, name), what, error_advice(error)) from error


def find_collections(
    found: Found, arguments: Mapping[str, Any], inputs: Mapping[str, Input], mode: str
) -> tuple[str, ...]:
    """The collections of a Linen module besides its parameters."""

    def variables(batch: Any) -> Any:
        return found.value(**arguments).init(jax.random.key(0), **batch, **modes(mode, False))

    made = attempt(found.name, lambda: jax.eval_shape(variables, shapes(inputs, 1)))
    return tuple(name for name in made if name != "params")


def modes(mode: str, training: bool) -> dict[str, bool]:
    """The argument of a call that tells it whether it is trained."""
    return {mode: MODES[mode] == training} if mode else {}


def shapes(inputs: Mapping[str, Input], rows: int) -> dict[str, jax.ShapeDtypeStruct]:
    """A batch of so many rows, abstract."""
    return {k: jax.ShapeDtypeStruct((rows, *x.shape), x.dtype) for k, x in inputs.items()}


def zeros(inputs: Mapping[str, Input], rows: int) -> dict[str, jax.Array]:
    """A batch of so many rows, of zeros."""
    return {name: jnp.zeros((rows, *x.shape), x.dtype) for name, x in inputs.items()}


def draws(jaxpr: Jaxpr) -> bool:
    """Whether a program draws random numbers."""
    return any(
        eqn.primitive.name in RANDOM or any(map(draws, jaxprs_in_params(eqn.params)))
        for eqn in jaxpr.eqns
    )
