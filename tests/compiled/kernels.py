"""The train step of a project compiled for a target, with the kernels of attention or without.

    python -m compiled.kernels h100 FOLDER kernels|formula ...

prints a line of JSON for each of the last: kernels: the custom calls of attention.  squares: arrays
of S x S.  sent: {kind: [operations, bytes]} of its collectives.  around: the sources of those that
a kernel brings.  Runs in the environment of targets.py.
"""

import importlib
import json
import re
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from compiled.hlo import collectives
from compiled.targets import AXES, mesh_of
from jax._src.cudnn import fused_attention_stablehlo
from jax.sharding import Mesh

S, ROWS = 1024, 8
# No size but S is 1024. Heads of 128 features, as most have, two of them for each of keys and values.
SIZES = {"embed_dim": 512, "mlp_dim": 768, "num_heads": 4, "num_kv_heads": 2, "head_dim": 128}
SIZES |= {"vocab_size": 640, "num_layers": 2, "max_positions": S}
KERNEL = re.compile(r'custom_call_target="(__cudnn\$fmha\w+|tpu_custom_call)"')
ARRAY = re.compile(r"\b(?:pred|[a-z]+\d+\w*)\[([\d,]+)\]")


def compile_step(folder: str, mesh: Mesh, kernels: bool) -> str:
    """The text of the train step of a project named my-project."""
    sys.path.insert(0, folder)
    modules = [importlib.import_module(f"my_project.{name}") for name in ("config", "steps")]
    module = importlib.import_module("redco_runtime.attention")
    if not kernels:
        module.KERNELS = {}
    preset = modules[0].PRESETS["full"]
    model = replace(preset.model, **SIZES)
    config = replace(preset, model=model, train=replace(preset.train, batch_size=ROWS))
    with jax.set_mesh(mesh):
        steps = modules[1].build(config)
        ids = jax.ShapeDtypeStruct((ROWS, S), jnp.int32, sharding=steps.batch)
        mask = jax.ShapeDtypeStruct((ROWS, S), jnp.bool_, sharding=steps.batch)
        batch = {"input_ids": ids, "mask": mask}
        return steps.train.trace(steps.state, batch).lower().compile().as_text()


def describe(text: str, n: int) -> dict[str, Any]:
    """What main() prints of a compiled program."""
    sent: dict[str, list[int]] = {}
    every = collectives(text, n)
    for one in every:
        count, size = sent.get(one.kind, (0, 0))
        sent[one.kind] = [count + one.runs, size + one.runs * one.bytes]
    shapes = [list(map(int, dims.split(","))) for dims in ARRAY.findall(text)]
    squares = {str(shape) for shape in shapes if shape.count(S) > 1}
    return {
        "kernels": Counter(KERNEL.findall(text)),
        "squares": sorted(squares),
        "sent": sent,
        "around": [one.source for one in every if "shard_map" in one.source],
    }


def main() -> None:
    target, folder, *ways = sys.argv[1:]
    # Asked of the devices at hand while a program is traced; an H100 has both.
    fused_attention_stablehlo.check_cudnn_version = lambda: 91000
    fused_attention_stablehlo.check_compute_capability = lambda capability: True
    devices = mesh_of(target).devices.reshape(1, 2, 2)
    mesh = Mesh(devices, AXES, axis_types=mesh_of(target).axis_types)
    for way in ways:
        text = compile_step(folder, mesh, way == "kernels")
        print(json.dumps(describe(text, mesh.size)), flush=True)


if __name__ == "__main__":
    main()
