"""Trains the preset tiny of a project in bfloat16 on a CPU; prints the held-out loss of each seed as JSON.

    python -m tables.products_losses PACKAGE PRODUCTS

Runs in the environment of targets.py, with the project's folder on the path.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib import import_module

import jax
import numpy as np
from tables.products import SEEDS, STEPS


def train(package: str, products: str) -> None:
    """Print {"seed", "loss"} of each of SEEDS after STEPS steps on one device."""
    modules = ("config", "pipeline", "sharding", "steps")
    config, pipeline, sharding, built = (import_module(f"{package}.{name}") for name in modules)
    batches = import_module(f"{package}.runtime.data.batches")
    tiny = config.TINY
    settings = replace(tiny.train, steps=STEPS, products=products)
    tiny = replace(tiny, model=replace(tiny.model, dtype="bfloat16"), train=settings)
    mesh = import_module(f"{package}.runtime.layout.mesh").make_mesh(
        dict.fromkeys(sharding.AXES, 1)
    )
    with jax.set_mesh(mesh):
        steps, (examples, held_out) = built.build(tiny), pipeline.examples(tiny)
        rows = [pipeline.collate([row]) for row in held_out]
        rows = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
        for seed in SEEDS:
            state, seeded = steps.init(jax.random.key(seed)), replace(settings, seed=seed)
            for batch in batches.TrainBatches(
                examples, pipeline, seeded, start=0, sharding=steps.batch
            ):
                state, _ = steps.train(state, batch)
            valid = np.ones(len(held_out), bool)
            sums, weight = steps.evaluate(state.predictor, rows, valid)
            loss = float(sums["loss"]) / float(weight)
            print(json.dumps({"seed": seed, "loss": loss}), flush=True)


if __name__ == "__main__":
    train(*sys.argv[1:])
