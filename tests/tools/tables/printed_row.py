"""Takes steps of a project or of PyTorch on a CPU; prints their seconds as JSON, for printed.py.

python -m tables.printed_row project FOLDER
python -m tables.printed_row eager|compile CHECKPOINT
python -m tables.printed_row write CHECKPOINT CLASS SIZES
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np

ROWS, LENGTH, WORDS, STEPS = 8, 256, 2000, 10
RATE = 1e-4


def main() -> None:
    what, path, *rest = sys.argv[1:]
    if what == "write":
        write(path, *rest)
        print([0])
    else:
        step = of_project(Path(path)) if what == "project" else of_torch(path, what)
        print(json.dumps(seconds(step)))


def seconds(step: Callable[[], float]) -> list[float]:
    """Return the seconds of STEPS steps after two more."""
    times = []
    for _ in range(STEPS + 2):
        began = time.perf_counter()
        assert np.isfinite(step())
        times.append(time.perf_counter() - began)
    return times[2:]


def ids() -> np.ndarray:
    """Return ids (B, S) of words, the same in all."""
    return np.random.default_rng(0).integers(1, WORDS, (ROWS, LENGTH), dtype=np.int32)


def of_project(folder: Path) -> Callable[[], float]:
    """Return a step of a project's preset `full`, on one device."""
    import jax

    sys.path.insert(0, str(folder))
    name = folder.name
    config, steps = (import_module(f"{name}.{one}") for one in ("config", "steps"))
    mesh = import_module(f"{name}.runtime.layout.mesh").make_mesh(
        dict.fromkeys(import_module(f"{name}.sharding").AXES, 1)
    )
    full = config.PRESETS["full"]
    full = replace(full, data=replace(full.data, sequence_length=LENGTH))
    with jax.set_mesh(mesh):
        built = steps.build(full)
        state = built.init(jax.random.key(0))
        batch = {"input_ids_BS": ids(), "weights_BS": np.ones((ROWS, LENGTH), np.float32)}
        pipeline = import_module(f"{name}.pipeline")
        example = pipeline.collate([pipeline.examples(replace(full, data=config.TINY.data))[0][0]])
        batch = {key: batch.get(key, np.resize(x, (ROWS, LENGTH))) for key, x in example.items()}

    def step() -> float:
        nonlocal state
        with jax.set_mesh(mesh):
            state, metrics = built.train(state, batch)
            return float(metrics["loss"])

    return step


def of_torch(checkpoint: str, way: str) -> Callable[[], float]:
    """Return a step of a causal language model in PyTorch."""
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint).train()
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    batch = torch.as_tensor(ids()).long()
    call = torch.compile(model) if way == "compile" else model

    def step() -> float:
        loss = call(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(loss)

    return step


def write(checkpoint: str, name: str, sizes: str) -> None:
    """Write a checkpoint of a class, drawn at random, with the tests' tokenizer."""
    import torch
    import transformers

    torch.manual_seed(0)
    cls = getattr(transformers, name)
    config = cls.config_class()
    for key, value in json.loads(sizes).items():
        if hasattr(config, key):
            setattr(config, key, value)
    config.pad_token_id = None
    cls(config).save_pretrained(checkpoint)


if __name__ == "__main__":
    main()
