"""Our side: the train step of a generated gpt-j project, at the same sizes.

Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np
from recorder import Recorder
from sizes import CLIP_NORM, LEARNING_RATE, WEIGHT_DECAY, Sizes, calls, tokens


def configure(project: Any, sizes: Sizes, remat: str) -> Any:
    """The project's Config for these sizes, with the settings that Redco's side trains with."""
    preset = project.PRESETS["tiny"]
    model = replace(
        preset.model,
        vocab_size=sizes.V,
        embed_dim=sizes.D,
        mlp_dim=sizes.F,
        num_layers=sizes.L,
        num_heads=sizes.N,
        rotary_dim=sizes.rotary,
        max_positions=sizes.S,
        dtype="float32",
        remat=remat,
    )
    optimizer = replace(
        preset.optimizer,
        learning_rate=LEARNING_RATE,
        warmup_steps=0,
        weight_decay=WEIGHT_DECAY,
        clip_norm=CLIP_NORM,
    )
    train = replace(preset.train, steps=calls(sizes), batch_size=sizes.B, micro_batches=1)
    return replace(preset, model=model, optimizer=optimizer, train=train)


def train(folder: Path, sizes: Sizes, remat: str, recorder: Recorder) -> dict[str, Any]:
    """Trains the project in `folder`, which can be imported, for `calls(sizes)` steps; returns the record."""
    package = folder.name.replace("-", "_")
    config = configure(import_module(f"{package}.config"), sizes, remat)
    axes = import_module(f"{package}.sharding").AXES
    with jax.set_mesh(import_module(f"{package}.runtime.layout.mesh").make_mesh(axes)):
        steps = import_module(f"{package}.steps").build(config)
        state = steps.init(jax.random.key(config.train.seed))
        for rows_BS in np.split(tokens(sizes, sizes.S), calls(sizes)):
            batch = {"input_ids": rows_BS, "mask": np.ones(rows_BS.shape, bool)}
            batch = jax.device_put(batch, steps.batch)
            state, _ = recorder.call(steps.train, lambda out: out[1]["loss"], state, batch)
        parameters = sum(leaf.size for leaf in jax.tree.leaves(state.params))
        return recorder.report("ours", parameters, steps.train.lower(state, batch).compile())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", type=Path, required=True)
    parser.add_argument("--remat", required=True)
    Sizes.add_flags(parser)
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.project))
    sizes = Sizes.of(arguments)
    recorder = Recorder(sizes)
    print(json.dumps(train(arguments.project, sizes, arguments.remat, recorder)))


if __name__ == "__main__":
    main()
