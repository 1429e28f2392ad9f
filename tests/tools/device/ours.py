"""The train step of a generated project on the device that is here: its seconds, and its memory.

    python ours.py --project FOLDER --rows B --length S [--remat POLICY] [--layers L] [--texts T]

Prints one JSON object: seconds of a step (median), tokens and model FLOPs a second, bytes that the device
held at most, and those that the compiler said.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import jax
import numpy as np

WARM_UP = 3  # calls before the first that is timed
PROFILED = 3  # steps


def configure(preset: Any, arguments: argparse.Namespace) -> Any:
    """Return the preset full with the sizes that the flags name."""
    sizes = {"max_positions": arguments.length} if arguments.length else {}
    if arguments.remat:
        sizes["remat"] = arguments.remat
    if arguments.layers:
        sizes["num_layers"] = arguments.layers
    train = replace(preset.train, batch_size=arguments.rows, micro_batches=arguments.micro_batches)
    return replace(preset, model=replace(preset.model, **sizes), train=train)


def make_batch(arguments: argparse.Namespace, vocab: int) -> dict[str, np.ndarray]:
    """Return random tokens; with --texts, each row holds as many texts of unequal length."""
    random = np.random.default_rng(0)
    shape = (arguments.rows, arguments.length)
    batch = {"input_ids": random.integers(0, vocab, shape, dtype=np.int32)}
    if not arguments.texts:
        return batch | {"mask": np.ones(shape, bool)}
    cuts = np.sort(
        [random.permutation(arguments.length - 1)[: arguments.texts - 1] for _ in range(shape[0])]
    )
    places = np.arange(arguments.length)
    segments = 1 + (places[None, :, None] > cuts[:, None, :]).sum(-1, dtype=np.int32)
    return batch | {"segments": segments}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the record of a run of a few steps."""
    sys.path.insert(0, str(arguments.project))
    package = arguments.project.name.replace("-", "_")
    config = configure(import_module(f"{package}.config").PRESETS["full"], arguments)
    axes = import_module(f"{package}.sharding").AXES
    training_flops = import_module(f"{package}.runtime.step.flops").training_flops
    with jax.set_mesh(import_module(f"{package}.runtime.layout.mesh").make_mesh(axes)):
        steps = import_module(f"{package}.steps").build(config)
        batch = jax.device_put(make_batch(arguments, config.model.vocab_size), steps.batch)
        state = steps.init(jax.random.key(0))
        flops = training_flops(steps, batch)
        start = time.perf_counter()
        step = steps.train.lower(state, batch).compile()
        compiling = time.perf_counter() - start
        analysis, seconds, losses = step.memory_analysis(), [], []
        for _ in range(WARM_UP + arguments.steps):
            start = time.perf_counter()
            state, values = step(state, batch)
            losses.append(float(values["loss"]))
            seconds.append(time.perf_counter() - start)
        kernels = profile(step, state, batch) if arguments.kernels else []
    for nanoseconds, name in kernels[: arguments.kernels]:
        print(f"{nanoseconds / 1e6 / PROFILED:9.2f} ms  {name}", file=sys.stderr)
    device = jax.devices()[0]
    memory, second = device.memory_stats() or {}, median(seconds[WARM_UP:])
    return {
        "project": arguments.project.name,
        **{
            name: getattr(arguments, name)
            for name in ("rows", "length", "remat", "layers", "texts")
        },
        "device": device.device_kind,
        "jax": jax.__version__,
        "seconds": second,
        "worst": max(seconds[WARM_UP:]),
        "tokens_per_second": arguments.rows * arguments.length / second,
        "flops": flops,
        "flops_per_second": flops / second,
        "peak_bytes": memory.get("peak_bytes_in_use", 0),
        "limit_bytes": memory.get("bytes_limit", 0),
        "argument_bytes": analysis.argument_size_in_bytes,
        "temporary_bytes": analysis.temp_size_in_bytes,
        "compile_seconds": compiling,
        "losses": [losses[0], losses[-1]],
    }


def profile(step: Any, state: Any, batch: Any) -> list[tuple[float, str]]:
    """Return what the kernels of PROFILED steps took, the longest first: (nanoseconds, name)."""
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(PROFILED):
                state, values = step(state, batch)
            jax.block_until_ready(values)
        (path,) = Path(folder).rglob("*.xplane.pb")
        for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
            if plane.name.startswith("/device:GPU"):
                for line in plane.lines:
                    if line.name.startswith("Stream"):
                        for event in line.events:
                            total[event.name] += event.duration_ns
    return sorted(((size, name) for name, size in total.items()), reverse=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", type=Path, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--remat", default="")
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--texts", type=int, default=0)
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--kernels", type=int, default=0, help="of the profile, the longest")
    parser.add_argument("--steps", type=int, default=20)
    print(json.dumps(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
