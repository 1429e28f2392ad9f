"""A program some of whose arrays are in another form than one piece, until something needs that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeGuard

import jax
import jax.numpy as jnp
from jax._src import source_info_util
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from .jaxprs import bind, scan_sizes

ELEMENTWISE = """
abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp clz
complex conj copy copy_p cos cosh digamma div eq eq_to erf erf_inv erfc exp exp2 expm1 floor ge gt
igamma igamma_grad_a igammac imag integer_pow is_finite le le_to lgamma log log1p logistic lt lt_to
max min mul mulhi ne neg nextafter not one_minus_square or polygamma population_count pow random_gamma real
reduce_precision regularized_incomplete_beta rem round rsqrt select_n shift_left
shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh
threefry2x32 xor zeros_like zeta
""".split()


class Form(ABC):
    """An array in another form than one piece. A pytree, so that control flow passes it on.

    order: of forms that meet in an equation, the rules of the lowest are asked first.
    """

    order: ClassVar[int] = 1

    @abstractmethod
    def whole(self) -> jax.Array:
        """Return the array in one piece."""

    @abstractmethod
    def of_layer(self) -> Form | None:
        """Return the form of each array that this one is a stack of; None if it has one in it."""


Operand = jax.Array | Form
# (equation, inputs) -> outputs; None: the inputs must be in one piece
Rule = Callable[[JaxprEqn, list[Any]], Sequence[Operand] | None]
RULES: dict[str, list[tuple[type, Rule]]] = {}


def rule(form: type, *primitives: str) -> Callable[[Rule], Rule]:
    """Register what primitives make of inputs some of which are in a form."""

    def register(function: Rule) -> Rule:
        for primitive in primitives:
            rules = RULES.setdefault(primitive, [])
            rules.append((form, function))
            rules.sort(key=lambda pair: getattr(pair[0], "order", Form.order))
        return function

    return register


def evaluate(jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[Operand]) -> list[Operand]:
    """Return the outputs of a jaxpr for inputs in any form; so are the outputs."""
    values: dict[Var, Operand] = dict(
        zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *inputs), strict=True)
    )
    for eqn in jaxpr.eqns:
        operands = [a.val if isinstance(a, Literal) else values[a] for a in eqn.invars]
        stack = source_info_util.current_name_stack() + eqn.source_info.name_stack
        context = source_info_util.user_context(eqn.source_info.traceback, name_stack=stack)
        with context, eqn.ctx.manager:
            values.update(zip(eqn.outvars, _outputs(eqn, operands), strict=True))
    return [a.val if isinstance(a, Literal) else values[a] for a in jaxpr.outvars]


def _outputs(eqn: JaxprEqn, operands: list[Operand]) -> Sequence[Operand]:
    """Return the outputs of an equation: by the first rule that has any, or of whole arrays."""
    for form, function in RULES.get(eqn.primitive.name, ()):
        if any(isinstance(operand, form) for operand in operands):
            if (outputs := function(eqn, operands)) is not None:
                return outputs
    return bind(eqn, map(whole_array, operands))


def whole_array(value: Operand) -> jax.Array:
    """Return an array as it is, and one in another form in one piece."""
    return value.whole() if isinstance(value, Form) else value


def in_form(value: Any) -> TypeGuard[Form]:
    """Return whether a value is an array in another form than one piece."""
    return isinstance(value, Form)


@rule(object, "jit", "pjit", "closed_call")
def _call(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Evaluate the body, in a call as well: its gradient adds up what is inside first."""
    body = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    if not isinstance(body, ClosedJaxpr):
        return None

    def call(*inputs: Operand) -> list[Operand]:
        return evaluate(body.jaxpr, body.consts, inputs)

    call.__name__ = eqn.params.get("name", call.__name__)
    return jax.jit(call)(*values)


@rule(object, "remat", "remat2", "checkpoint")
def _remat(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Evaluate the body, under a checkpoint of the same policy."""
    body, options = eqn.params["jaxpr"], {k: eqn.params[k] for k in ("policy", "prevent_cse")}
    return jax.checkpoint(lambda *inputs: evaluate(body, (), inputs), **options)(*values)


@rule(Form, "custom_jvp_call")
def _custom_derivative(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Evaluate the body, and its derivative as the user has written it."""
    if not all(jnp.issubdtype(jnp.result_type(atom.aval), jnp.inexact) for atom in eqn.invars):
        return None
    body = eqn.params["call_jaxpr"]

    def own(*arrays: jax.Array) -> list[jax.Array]:
        return bind(eqn, arrays)

    def derivative(*arrays: jax.Array) -> list[jax.Array]:
        primals, tangents = arrays[: len(values)], arrays[len(values) :]
        outputs, changes = jax.jvp(own, primals, tangents)
        return [*outputs, *changes]

    @jax.custom_jvp
    def run(*inputs: Operand) -> list[Operand]:
        return evaluate(body.jaxpr, body.consts, inputs)

    @run.defjvp
    def _(primals: Sequence[Operand], tangents: Sequence[Operand]) -> Any:
        shapes = [
            jax.typeof(atom) if isinstance(atom, Literal) else atom.aval for atom in eqn.invars
        ]
        jaxpr = jax.make_jaxpr(derivative)(*shapes, *shapes)
        outputs = evaluate(jaxpr.jaxpr, jaxpr.consts, [*primals, *tangents])
        count = len(outputs) // 2
        return outputs[:count], outputs[count:]

    return run(*values)


@rule(object, "cond")
def _cond(eqn: JaxprEqn, values: list[Operand]) -> list[jax.Array]:
    """Evaluate the branch that is chosen."""

    def branch(body: ClosedJaxpr) -> Callable[..., list[jax.Array]]:
        return lambda *inputs: [*map(whole_array, evaluate(body.jaxpr, body.consts, inputs))]

    index, *inputs = values
    return jax.lax.switch(whole_array(index), [*map(branch, eqn.params["branches"])], *inputs)


@rule(object, "scan")
def _scan(eqn: JaxprEqn, values: list[Operand]) -> list[jax.Array]:
    """Loop with what is the same in each step in its form, and the layers that it runs over."""
    body, (n_consts, n_carry) = eqn.params["jaxpr"], scan_sizes(eqn)
    consts, layers = values[:n_consts], values[n_consts + n_carry :]
    stacked = [whole_array(x) if in_form(x) and x.of_layer() is None else x for x in layers]

    def step(carry: list[jax.Array], layer: list[Any]) -> tuple[list[jax.Array], list[jax.Array]]:
        forms: list[Any] = [x.of_layer() if in_form(x) else x for x in layer]
        inputs = [*consts, *carry, *forms]
        outputs = [*map(whole_array, evaluate(body.jaxpr, body.consts, inputs))]
        return outputs[:n_carry], outputs[n_carry:]

    options = {k: eqn.params[k] for k in ("length", "reverse", "unroll")}
    carry = [*map(whole_array, values[n_consts : n_consts + n_carry])]
    end, stacks = jax.lax.scan(step, carry, stacked, **options)
    return [*end, *stacks]
