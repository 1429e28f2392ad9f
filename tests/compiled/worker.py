"""Compiles models of the zoo for one target; prints what each program sends, a line of JSON each.

    python -m compiled.worker h100 gpt2 llama ...

Runs in the environment of targets.py. Equal layouts of one model are compiled once.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import jax
from compiled.apart import APART
from compiled.hand import hand_specs
from compiled.program import held, measure
from compiled.redco import redco_specs
from compiled.targets import DEVICES, TARGETS, mesh_of
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from redco_fit.compiled.hlo import KINDS
from redco_plan import plan_sharding
from sharding.models import ZOO
from sharding.zoo import L

MODELS = ZOO | APART
SCANNED = ("scanned", "gpt2", "linen")
Program = tuple[Callable[[Any, Any], Any], Any, Any]  # forward, parameters, specs


def ours(model: str, params: Any) -> Program:
    """The engine's layout, without the axes of size 1, and the parameters as it stores them."""
    forward, _, batch = MODELS[model]
    plan = plan_sharding(forward, params, batch, {"model": DEVICES}, apart=True)
    specs = jax.tree.map(
        lambda spec: P(*("model" if a == "model" else None for a in spec)), plan.specs
    )
    return plan.forward, jax.eval_shape(plan.store, params), specs


def hand(model: str, params: Any) -> Program:
    return MODELS[model][0], params, hand_specs(model, params)


def redco(model: str, params: Any) -> Program:
    return MODELS[model][0], params, redco_specs(model, params)


LAYOUTS: dict[str, Callable[[str, Any], Program]] = {"ours": ours, "hand": hand, "redco": redco}


def records(model: str, layouts: list[str], mesh: Mesh) -> Iterator[dict[str, Any]]:
    """One record a layout, and one of a layer in our layout if the model has layers."""
    _, params, batch = MODELS[model]
    done: dict[tuple, dict] = {}
    for layout in layouts:
        forward, stored, specs = LAYOUTS[layout](model, params)
        shapes = [leaf.shape for leaf in jax.tree.leaves(stored)]
        key = (*shapes, *map(tuple, jax.tree.leaves(specs)))
        if key not in done:
            done[key] = measure(forward, stored, batch, specs, mesh)
        yield {"layout": layout, "held": held(stored, specs, DEVICES), **done[key]}
        if layout == "ours" and (found := layer(model, done[key], mesh)):
            yield {"layout": "layer", **found}


def layer(model: str, whole: dict[str, Any], mesh: Mesh) -> dict[str, Any] | None:
    """What one more layer sends: by the difference of two depths, or by the body of the scan."""
    _, params, batch = MODELS[model]
    if model in SCANNED:
        return divided(whole["loops"], L)
    stacks = [leaf for leaf in jax.tree.leaves(params, is_leaf=is_list) if is_list(leaf)]
    if not stacks:
        return None
    depth = len(stacks[0])
    other = 1 if depth > 1 else 2
    params = jax.tree.map(lambda x: x[:1] * other if is_list(x) else x, params, is_leaf=is_list)
    forward, stored, specs = ours(model, params)
    part = measure(forward, stored, batch, specs, mesh)
    more = {kind: whole["counts"].get(kind, 0) - part["counts"].get(kind, 0) for kind in KINDS}
    difference = {"counts": more, "units": whole["units"] - part["units"]}
    return divided(difference, depth - other)


def is_list(node: Any) -> bool:
    return isinstance(node, list)


def divided(totals: dict[str, Any], n: int) -> dict[str, Any]:
    counts = {kind: count / n for kind, count in totals["counts"].items() if count}
    return {"counts": counts, "units": round(totals["units"] / n, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS))
    arguments = parser.parse_args()
    mesh = mesh_of(arguments.target)
    # A model that makes a mesh of its own makes it of the target's devices.
    jax.make_mesh = functools.partial(jax.make_mesh, devices=mesh.devices.ravel())
    for model in arguments.models:
        for record in records(model, arguments.layouts, mesh):
            print(json.dumps({"target": arguments.target, "model": model, **record}), flush=True)


if __name__ == "__main__":
    main()
