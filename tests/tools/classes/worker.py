"""Compiles the train steps of classes for H100s that are not here; prints what each sends as JSON.

    python -m classes.worker FOLDER gpt2 llama ...

Runs in the environment of compiled/targets.py, with the packages of the classes, and makes two projects of
each case in FOLDER, at its real widths: one for 4 shards, which is compiled as it is, and one that
splits nothing, whose table of specs then is the plan by hand.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import traceback
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import jax
from classes.cases import CASES, Case
from classes.plans import HAND
from compiled.hand import matches
from redco_fit.compiled.hlo import KINDS, collectives
from compiled.program import LEAST, REMAT, captured_stderr
from compiled.targets import DEVICES, mesh_of
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from redco_new.project.create import create_project
from redco_new.request import Request

ROWS = 4  # of the batch that is compiled for: bytes scale with it, layouts do not


def make(case: Case, folder: Path, name: str, shards: int) -> Path:
    """Create a project of a case at its real widths. Raises RedcoError."""
    flags = {"recipe": case.recipe, "example": f"{case.file}:large", "shards": str(shards)}
    request = Request.from_flags(name, case.cls, folder=folder / name, **flags)
    return create_project(request, folder)


def steps_of(project: Path) -> tuple[ModuleType, Any]:
    """Import a project; return its module `steps`, and an abstract batch of ROWS rows."""
    sys.path.insert(0, str(project))
    importlib.invalidate_caches()
    steps, pipeline, config = (
        importlib.import_module(f"{project.name}.{name}")
        for name in ("steps", "pipeline", "config")
    )
    full = config.PRESETS["full"]
    few = replace(full, data=replace(full.data, num_examples=2 * ROWS))
    examples, _ = pipeline.examples(few)
    batch = pipeline.collate(examples[:ROWS])
    return steps, jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), batch)


def compile_train(steps: ModuleType, batch: Any, config: Any, mesh: Mesh) -> dict[str, Any]:
    """Return what a train step sends: bytes of a device, {kind: operations}, each of them in words."""
    with jax.set_mesh(mesh):
        built: list[Any] = []
        # Under a trace, since these devices compute no key and no zero; there JAX knows no mesh.
        with mock.patch.object(jax.sharding, "get_mesh", lambda: mesh):
            jax.eval_shape(lambda: built.append(steps.build(config)) or 0)
        whole = NamedSharding(mesh, P())
        batch = jax.tree.map(lambda x: x.update(sharding=whole), batch)
        with captured_stderr() as warnings:
            text = built[0].train.lower(built[0].state, batch).compile().as_text()
    sent = [one for one in collectives(text, mesh.size) if one.bytes >= LEAST]
    counts: Counter[str] = Counter()
    for one in sent:
        counts[one.kind] += one.runs
    return {
        "bytes": round(sum(one.sent(mesh.size) for one in sent)),
        "counts": {kind: counts[kind] for kind in KINDS if counts[kind]},
        "held": held(built[0].state.params),
        "remats": warnings[0].count(REMAT),
        "collectives": [f"{one.runs} x {one.kind} {one.bytes} B: {one.source}" for one in sent],
    }


def held(params: Any) -> float:
    """Return the share of all parameters that one device holds."""
    leaves = jax.tree.leaves(params)
    mine = sum(math.prod(x.sharding.shard_shape(x.shape)) for x in leaves)
    return mine / sum(x.size for x in leaves)


def hand_table(case: Case, table: dict[str, P]) -> dict[str, P]:
    """Return the specs of the plan by hand. Raises ValueError for a line that names no parameter."""
    plan = HAND[case.name]
    lines = {path: line_of(path, plan) for path in table}
    if unused := {*plan} - {*lines.values()}:
        raise ValueError(f"{case.name}: these name no parameter: {unused}; there are {[*table]}")
    return {
        path: P(*("model" if dim == plan.get(lines[path]) else None for dim in range(len(whole))))
        for path, whole in table.items()
    }


def line_of(path: str, plan: dict[str, int]) -> str:
    """Return the line of a plan that names a parameter, or all parts of it, by its path's end; "" if none."""
    parts = path.split("/")
    whole = parts[:-1] if parts[-1].isdecimal() else parts
    for ends in (parts, whole):
        for end in plan:
            if matches("/".join(ends[-end.count("/") - 1 :]), end):
                return end
    return ""


def record(case: Case, folder: Path, mesh: Mesh) -> dict[str, Any]:
    """Return {"ours": what the project's own layout sends, "hand": what the plan by hand does}."""
    layouts = {}
    for layout, shards in (("ours", DEVICES), ("hand", 1)):
        steps, batch = steps_of(make(case, folder, f"{case.name}_{layout}", shards))
        if layout == "hand":
            steps.PARAMS = hand_table(case, steps.PARAMS)
        config = sys.modules[f"{case.name}_{layout}.config"].PRESETS["full"]
        layouts[layout] = compile_train(steps, batch, config, mesh)
    return layouts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    mesh = mesh_of("h100")
    for case in CASES:
        if case.name in (arguments.names or [case.name]):
            try:
                found = record(case, arguments.folder, mesh)
            except Exception as error:  # another case may be right
                traceback.print_exc()
                found = {"error": str(error)}
            print(json.dumps({"name": case.name, **found}), flush=True)


if __name__ == "__main__":
    main()
