"""Compiles the training step of a project for four H100s; prints what it sends, as JSON.

    python -m compiled.project PACKAGE

Runs in the environment of targets.py, with the project's folder on the path.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from importlib import import_module
from math import prod
from typing import Any

import jax
from compiled.program import LEAST
from compiled.targets import devices_of
from jax.sharding import AxisType, Mesh
from redco_fit.compiled.hlo import Collective, collectives

ROWS = 8


def sent(package: str) -> list[Collective]:
    """The collectives of one step of the full model, on its mesh."""
    config, pipeline, sharding, steps = (
        import_module(f"{package}.{name}") for name in ("config", "pipeline", "sharding", "steps")
    )
    axes = {axis: max(size, 1) for axis, size in sharding.AXES.items()}
    devices = devices_of("h100", prod(axes.values()))
    mesh = Mesh(
        devices.reshape(tuple(axes.values())),
        tuple(axes),
        axis_types=(AxisType.Auto,) * len(axes),
    )
    full = config.PRESETS["full"]
    small = replace(full, data=config.TINY.data)
    example = pipeline.collate(pipeline.examples(small)[0][:1])
    with jax.set_mesh(mesh):
        built = build(steps, full)
        batch = {
            name: jax.ShapeDtypeStruct((ROWS, *x.shape[1:]), x.dtype, sharding=built.batch)
            for name, x in example.items()
        }
        text = built.train.lower(built.state, batch).compile().as_text()
    return [one for one in collectives(text, mesh.size) if one.bytes >= LEAST]


def build(steps: Any, config: Any) -> Any:
    """The steps on devices that are not here: a key outside of a trace is abstract."""
    key = jax.random.key

    def abstract(seed: int) -> Any:
        try:
            return key(seed)
        except AttributeError:  # a device that compiles only cannot make an array
            return jax.eval_shape(key, 0)

    jax.random.key = abstract
    try:
        return steps.build(config)
    finally:
        jax.random.key = key


def main() -> None:
    found, counts = sent(sys.argv[1]), Counter()
    for one in found:
        counts[one.kind] += one.runs
    n = prod(max(size, 1) for size in import_module(f"{sys.argv[1]}.sharding").AXES.values())
    print(json.dumps({"counts": counts, "MB": round(sum(one.sent(n) for one in found) / 1e6, 1)}))


if __name__ == "__main__":
    main()
