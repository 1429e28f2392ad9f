"""Rules of the primitives that hold a program of their own: calls, loops, branches."""

from __future__ import annotations

from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr

from redco_new.sharding.dims import Graph, Value, rule
from redco_new.sharding.walk import run


@rule(
    *("jit", "pjit", "call", "closed_call", "core_call", "remat", "remat2", "checkpoint"),
    *("remat_opt", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
    *("custom_jvp_call_jaxpr", "custom_vmap_call", "composite", "eval_jaxpr"),
)
def call(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """The body, inlined."""
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr", "call"):
        if name in eqn.params:
            return inline(graph, eqn.params[name], inputs)
    raise TypeError(f"{eqn.primitive.name} holds no program: its parameters are {list(eqn.params)}")


def inline(graph: Graph, body: ClosedJaxpr | Jaxpr, inputs: list[Value]) -> list[Value]:
    closed = isinstance(body, ClosedJaxpr)
    return run(graph, body.jaxpr if closed else body, body.consts if closed else (), inputs)


@rule("scan")
def scan(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """Constants and carries enter as they are; the leading dim of the rest is the scanned dim."""
    n_consts, n_carry = eqn.params["num_consts"], eqn.params["num_carry"]
    length, body = eqn.params["length"], eqn.params["jaxpr"].jaxpr
    consts, carry, stacked = (
        inputs[:n_consts],
        inputs[n_consts : n_consts + n_carry],
        inputs[n_consts + n_carry :],
    )
    steps = graph.node(length)
    graph.scanned.append(steps)
    slices = []
    for value, var in zip(stacked, body.invars[n_consts + n_carry :], strict=True):
        graph.unite(steps, value.dims[0])
        slices.append(graph.value(var.aval, value.dims[1:], value))
    before, graph.times = graph.times, graph.times * length
    outputs = inline(graph, eqn.params["jaxpr"], [*consts, *carry, *slices])
    graph.times = before
    for start, end in zip(carry, outputs[:n_carry], strict=True):
        graph.unite_all(start.dims, end.dims)
    collected = [
        graph.value(var.aval, (steps, *value.dims))
        for var, value in zip(eqn.outvars[n_carry:], outputs[n_carry:], strict=True)
    ]
    return [*carry_out(graph, eqn.outvars[:n_carry], outputs[:n_carry]), *collected]


@rule("while")
def while_loop(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """Carry in and carry out are the same; the number of steps is unknown, so one is counted."""
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    carry = inputs[n_cond + n_body :]
    inline(graph, eqn.params["cond_jaxpr"], [*inputs[:n_cond], *carry])
    outputs = inline(graph, eqn.params["body_jaxpr"], [*inputs[n_cond : n_cond + n_body], *carry])
    for start, end in zip(carry, outputs, strict=True):
        graph.unite_all(start.dims, end.dims)
    return carry_out(graph, eqn.outvars, outputs)


def carry_out(graph: Graph, variables: list[Any], outputs: list[Value]) -> list[Value]:
    """The carries after a loop: new values of the dims that the body gave them."""
    return [
        graph.value(var.aval, value.dims) for var, value in zip(variables, outputs, strict=True)
    ]


@rule("cond")
def cond(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """Every branch, and their outputs are the same."""
    first, *others = [inline(graph, branch, inputs[1:]) for branch in eqn.params["branches"]]
    for outputs in others:
        for a, b in zip(first, outputs, strict=True):
            graph.unite_all(a.dims, b.dims)
    return carry_out(graph, eqn.outvars, first)
