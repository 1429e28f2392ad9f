"""Traced program -> graph: each equation by the rule of its primitive."""

from __future__ import annotations

import sysconfig
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jax._src import source_info_util
from jax.extend.core import Jaxpr, Literal

from redco_new.sharding.dims import RULES, Body, Graph, Value
from redco_new.sharding.ties import settle
from redco_new.sharding.trace import Traced
from redco_new.sharding.ways import Divider

LIBRARIES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))


def build_graph(traced: Traced, divider: Divider) -> Graph:
    """The graph of a traced forward pass.

    Its first values are the parameters, then the batch.
    """
    from redco_new.sharding import (  # noqa: F401  (they fill RULES)
        control,
        devices,
        products,
        rules,
        slices,
        windows,
    )

    graph = Graph()
    jaxpr = traced.jaxpr.jaxpr
    inputs = [graph.value(var.aval) for var in jaxpr.invars]
    n_parameters = len(traced.parameters)
    for i, value in enumerate(inputs):
        known = replace(value, parameter=i) if i < n_parameters else replace(value, data=True)
        inputs[i] = graph.values[i] = known
    run(graph, jaxpr, traced.jaxpr.consts, inputs)
    settle(graph, divider)
    return graph


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
