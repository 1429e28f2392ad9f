"""Jaxpr -> graph: every equation by the rule of its primitive, programs inside programs too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os.path import basename

from jax._src import source_info_util
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from redco_plan.frames import owner_of
from redco_plan.graph import Atom, Body, Graph, Value
from redco_plan.apart.jaxprs import scan_sizes

Rule = Callable[[Graph, JaxprEqn, list[Value]], list[Value]]
RULES: dict[str, Rule] = {}  # primitive -> (graph, equation, inputs) -> outputs


def rule(*primitives: str) -> Callable[[Rule], Rule]:
    """Register the rule of one or several primitives, by name."""

    def register(function: Rule) -> Rule:
        for primitive in primitives:
            assert primitive not in RULES, primitive
            RULES[primitive] = function
        return function

    return register


def walk_jaxpr(graph: Graph, jaxpr: Jaxpr, inputs: Sequence[Value]) -> list[Value]:
    """Apply the rules to every equation of `jaxpr`; return the values of its outputs."""
    outer = graph.source, graph.data, graph.bodies
    inner: list[tuple[Body, ...]] = []
    values: dict[Var, Value] = dict(zip(jaxpr.invars, inputs, strict=True))
    graph.data = False
    values.update((var, graph.value(var)) for var in jaxpr.constvars)

    def read(atom: Atom) -> Value:
        return graph.value(atom) if isinstance(atom, Literal) else values[atom]

    for eqn in jaxpr.eqns:
        graph.source, graph.data, graph.bodies = _source_line(eqn, outer[0]), False, []
        operands = [read(atom) for atom in eqn.invars]
        graph.data = any(value.data for value in operands)
        outputs = RULES.get(eqn.primitive.name, _without_rule)(graph, eqn, operands)
        values.update(zip(eqn.outvars, outputs, strict=True))
        inner.append(tuple(graph.bodies))
    graph.source, graph.data, graph.bodies = outer
    graph.bodies.append(Body(jaxpr, values, inner))
    return [read(atom) for atom in jaxpr.outvars]


def _without_rule(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Forbid to split any dim of a primitive without a rule, and record its name."""
    graph.unknown_primitives.setdefault(eqn.primitive.name, graph.source)
    for value in inputs:
        graph.use("cut", value.dims, value)
    return [graph.value(var) for var in eqn.outvars]


def _source_line(eqn: JaxprEqn, within: str) -> str:
    """Return `file.py:12 (function)` of the line of the model that made an equation, or "".

    Where a library made it (a layer of Flax), it is the line that called the library; where JAX traced that later,
    as the rules of a custom_vjp, that of the program that it is `within`.
    """
    frames = list(source_info_util.user_frames(eqn.source_info.traceback))
    own = (frame for frame in frames if owner_of(frame.file_name) != "library")
    frame = next(own, None if within or not frames else frames[0])
    if frame is None:
        return within
    return f"{basename(frame.file_name)}:{frame.start_line} ({frame.function_name})"


@rule(
    *("jit", "pjit", "call", "closed_call", "core_call", "remat", "remat2", "checkpoint"),
    *("remat_opt", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
    *("custom_jvp_call_jaxpr", "custom_vmap_call", "composite", "eval_jaxpr"),
)
def _call(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Walk through the body, inlined."""
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr", "call"):
        if name in eqn.params:
            return _inline(graph, eqn.params[name], inputs)
    raise TypeError(f"{eqn.primitive.name} holds no program: its parameters are {list(eqn.params)}")


def _inline(graph: Graph, body: ClosedJaxpr | Jaxpr, inputs: list[Value]) -> list[Value]:
    """Walk through a jaxpr, closed or open; return the values of its outputs."""
    return walk_jaxpr(graph, body.jaxpr if isinstance(body, ClosedJaxpr) else body, inputs)


@rule("scan")
def _scan(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Enter with constants and carries as they are; the rest lead with the dim of the loop."""
    n_consts, n_carry = scan_sizes(eqn)
    length, body = eqn.params["length"], eqn.params["jaxpr"].jaxpr
    consts, carry, stacked = (
        inputs[:n_consts],
        inputs[n_consts : n_consts + n_carry],
        inputs[n_consts + n_carry :],
    )
    steps = graph.node(length)
    graph.loop_dims.append(steps)
    slices = []
    for value, var in zip(stacked, body.invars[n_consts + n_carry :], strict=True):
        graph.unite(steps, value.dims[0])
        slices.append(graph.value(var, value.dims[1:], value))
    before, graph.times = graph.times, graph.times * length
    outputs = _inline(graph, eqn.params["jaxpr"], [*consts, *carry, *slices])
    graph.times = before
    for start, end in zip(carry, outputs[:n_carry], strict=True):
        graph.unite_all(start.dims, end.dims)
    stacks = [
        graph.value(var, (steps, *value.dims))
        for var, value in zip(eqn.outvars[n_carry:], outputs[n_carry:], strict=True)
    ]
    return [*_after(graph, eqn.outvars[:n_carry], outputs[:n_carry]), *stacks]


@rule("while")
def _while(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Unite carry in with carry out; the number of steps is unknown, so one is counted."""
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    carry = inputs[n_cond + n_body :]
    _inline(graph, eqn.params["cond_jaxpr"], [*inputs[:n_cond], *carry])
    outputs = _inline(graph, eqn.params["body_jaxpr"], [*inputs[n_cond : n_cond + n_body], *carry])
    for start, end in zip(carry, outputs, strict=True):
        graph.unite_all(start.dims, end.dims)
    return _after(graph, eqn.outvars, outputs)


@rule("cond")
def _cond(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Walk through every branch, and unite their outputs."""
    first, *others = [_inline(graph, branch, inputs[1:]) for branch in eqn.params["branches"]]
    for outputs in others:
        for a, b in zip(first, outputs, strict=True):
            graph.unite_all(a.dims, b.dims)
    return _after(graph, eqn.outvars, first)


def _after(graph: Graph, variables: Sequence[Var], outputs: list[Value]) -> list[Value]:
    """Return new values after a loop or a branch, of the dims that its body gave them."""
    return [graph.value(var, value.dims) for var, value in zip(variables, outputs, strict=True)]


@rule("shard_map")
def _shard_map(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Walk through the body, on one device's part; dims that the user leaves whole are cut."""
    body = eqn.params["jaxpr"]
    local = []
    for value, var, spec in zip(inputs, body.invars, eqn.params["in_specs"], strict=True):
        entries = (*spec, *[None] * (len(value.dims) - len(spec)))
        whole = [n for n, axes in zip(value.dims, entries, strict=True) if axes is None]
        graph.use("cut", whole, value)
        local.append(graph.value(var, part=value))
        graph.unite_all(value.dims, local[-1].dims)
    outputs = walk_jaxpr(graph, body, local)
    wholes = [graph.value(var) for var in eqn.outvars]
    for value, inner in zip(wholes, outputs, strict=True):
        graph.unite_all(value.dims, inner.dims)
    return wholes
