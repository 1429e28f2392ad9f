"""Traced program -> graph: each equation by the rule of its primitive."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Sequence
from typing import Any
from jax._src import source_info_util
from jax.extend.core import Jaxpr, Literal
from redco_new.sharding.graph import Body
from redco_new.sharding.graph import Graph
from redco_new.sharding.graph import Value
from jax.extend.core import ClosedJaxpr

Rule = Callable[[Graph, Any, list[Value]], list[Value]]


RULES: dict[str, Rule] = {}


def rule(*primitives: str) -> Callable[[Rule], Rule]:
    """Register the rule of one or several primitives, by name."""

    def register(function: Rule) -> Rule:
        for primitive in primitives:
            assert primitive not in RULES, primitive
            RULES[primitive] = function
        return function

    return register


LIBRARIES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))


def run(graph: Graph, jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[Value]) -> list[Value]:
    """Apply the rules to each equation of `jaxpr`; the values of its outputs."""
    outer = graph.source, graph.data, graph.bodies
    inner: list[tuple[Body, ...]] = []
    env = dict(zip(jaxpr.invars, inputs, strict=True))
    graph.data = False
    env.update((var, graph.value(var.aval)) for var in jaxpr.constvars)

    def read(atom: Any) -> Value:
        return graph.value(atom.aval) if isinstance(atom, Literal) else env[atom]

    for eqn in jaxpr.eqns:
        graph.source, graph.data, graph.bodies = source_line(eqn) or outer[0], False, []
        values = [read(atom) for atom in eqn.invars]
        graph.data = any(value.data for value in values)
        outputs = RULES.get(eqn.primitive.name, unknown)(graph, eqn, values)
        env.update(zip(eqn.outvars, outputs, strict=True))
        inner.append(tuple(graph.bodies))
    graph.source, graph.data, graph.bodies = outer
    graph.bodies.append(Body(jaxpr, env, inner))
    return [read(atom) for atom in jaxpr.outvars]


def unknown(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """A primitive without a rule: nothing is known of its dims, so none of them may be split."""
    graph.unknown.setdefault(eqn.primitive.name, graph.source)
    for value in inputs:
        graph.use("cut", value.dims, value)
    return [graph.value(var.aval) for var in eqn.outvars]


def source_line(eqn: Any) -> str:
    """`file.py:12 (function)` of the user's line that made an equation, or "".

    Where an installed library made it (a layer of Flax), the line that called the library.
    """
    frames = list(source_info_util.user_frames(eqn.source_info.traceback))
    own = (frame for frame in frames if not frame.file_name.startswith(LIBRARIES))
    frame = next(own, frames[0] if frames else None)
    if frame is None:
        return ""
    return f"{frame.file_name.rsplit('/', 1)[-1]}:{frame.start_line} ({frame.function_name})"


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


@rule("shard_map")
def shard_map(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """The body, on one device's part. A dim that the user leaves whole is gathered if split."""
    body = eqn.params["jaxpr"]
    local = []
    for value, var, spec in zip(inputs, body.invars, eqn.params["in_specs"], strict=True):
        named = [axes is not None for axes in (*spec, *[None] * (len(value.dims) - len(spec)))]
        graph.use(
            "cut", [n for n, is_named in zip(value.dims, named, strict=True) if not is_named], value
        )
        local.append(graph.value(var.aval, part=value))
        graph.unite_all(value.dims, local[-1].dims)
    outputs = run(graph, body, (), local)
    made = [graph.value(var.aval) for var in eqn.outvars]
    for value, inner in zip(made, outputs, strict=True):
        graph.unite_all(value.dims, inner.dims)
    return made
