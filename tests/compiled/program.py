"""One training step of a model, compiled for a target in a given layout, and what it sends."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
from compiled.remembered import remembered
from jax.experimental.compilation_cache.compilation_cache import reset_cache
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from redco_fit.compiled.hlo import KINDS, Collective, collectives
from sharding.zoo import B, D, S

# Bytes below which a collective is not counted: losses, norms and other scalars.
LEAST = 1024
REMAT = "Involuntary full rematerialization"


def half(tree: Any) -> Any:
    """The floating-point arrays of a tree in bfloat16."""
    return jax.tree.map(
        lambda x: x.astype(jnp.bfloat16) if jnp.issubdtype(x.dtype, jnp.floating) else x, tree
    )


def step(forward: Callable) -> Callable:
    """(params, batch) -> (loss, gradients), activations in bfloat16, parameters in float32."""

    def loss(params, batch):
        return jnp.mean(jnp.square(forward(half(params), half(batch)).astype(jnp.float32)))

    return jax.value_and_grad(loss)


@contextmanager
def compiled_anew() -> Iterator[None]:
    """Let XLA compile what a former run has compiled: a program that is kept warns of nothing."""
    jax.config.update("jax_enable_compilation_cache", False)
    reset_cache()
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", True)
        reset_cache()


@contextmanager
def captured_stderr() -> Iterator[list[str]]:
    """A list that holds, afterwards, what was written to file descriptor 2 meanwhile."""
    text: list[str] = []
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield text
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            text.append(file.read().decode(errors="replace"))


def compile_step(
    forward: Callable, params: Any, batch: Any, specs: Any, mesh: Mesh
) -> tuple[str, str]:
    """The text of the compiled step, and what the compiler wrote to stderr.

    The batch is whole on every device; the gradients come out as the parameters lie.
    """
    split = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
    whole = NamedSharding(mesh, P())
    program = jax.jit(step(forward), in_shardings=(split, whole), out_shardings=(whole, split))
    lowered = program.lower(params, batch)

    def compiled() -> tuple[str, str]:
        with compiled_anew(), captured_stderr() as warnings:
            text = lowered.compile().as_text()
        return text, warnings[0]

    text, warnings = remembered(lowered, compiled)
    return text, warnings


def measure(forward: Callable, params: Any, batch: Any, specs: Any, mesh: Mesh) -> dict[str, Any]:
    """What the step sends.

    counts: {kind: operations}.  units: bytes sent by a device, in those of an all-reduce of one
    (B,S,D) in bfloat16.  loops: the same two, of what is run more than once.  found: a line for each
    collective, with its source.  remats: warnings of an involuntary full rematerialization.
    seconds: of compilation.
    """
    start = time.monotonic()
    text, warnings = compile_step(forward, params, batch, specs, mesh)
    seconds = time.monotonic() - start
    found = [one for one in collectives(text, mesh.size) if one.bytes >= LEAST]
    return {
        **totals(found, mesh.size),
        "loops": totals([one for one in found if one.runs > 1], mesh.size),
        "found": [f"{one.runs} x {one.kind} {one.bytes} B: {one.source}" for one in found],
        "remats": warnings.count(REMAT),
        "seconds": round(seconds, 1),
    }


def totals(found: list[Collective], n: int) -> dict[str, Any]:
    """counts and units of collectives."""
    counts = Counter()
    for one in found:
        counts[one.kind] += one.runs
    unit = Collective("all-reduce", B * S * D * jnp.bfloat16.dtype.itemsize).sent(n)
    return {
        "counts": {kind: counts[kind] for kind in KINDS if counts[kind]},
        "units": round(sum(one.sent(n) for one in found) / unit, 2),
    }


def held(params: Any, specs: Any, n: int) -> float:
    """The share of a model's parameters that each of n devices holds: 1/n at best."""
    sizes = jax.tree.map(lambda leaf, spec: leaf.size / (n if any(spec) else 1), params, specs)
    return sum(jax.tree.leaves(sizes)) / sum(leaf.size for leaf in jax.tree.leaves(params))
