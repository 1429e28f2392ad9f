"""The train step of an emitted project, at full size, compiled for devices that are not here.

Runs in the environment of targets.py.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.cudnn import fused_attention_stablehlo
from jax.sharding import AxisType, Mesh

# Bytes that JAX has for arrays: of an H100, three quarters, as it asks for by default; of TPUs, what libtpu
# holds programs to.
MEMORY = {
    "NVIDIA H100 80GB HBM3": 63 * 10**9,
    "TPU v5 lite": int(15.75 * 2**30),
    "TPU v5": int(95.73 * 2**30),
}


@dataclass(frozen=True)
class Compiled:
    """A train step.

    text: of the program.  peak: bytes of each device at most.  params: shapes by path.
    model: the configuration of the model.
    """

    text: str
    peak: int
    params: Any
    model: Any


def compile_train(
    folder: Path,
    devices: np.ndarray,
    axes: Mapping[str, int],
    rows: int,
    length: int,
    sizes: Mapping[str, Any],
    micro_batches: int = 1,
) -> Compiled:
    """Compile the step of the preset full of a project, `rows` examples of `length` tokens over all.

    axes: of the mesh; those that are left out have one device.  sizes: of the model, where others.
    """
    kind = devices.flat[0].device_kind
    # Asked of the devices at hand while a program is traced; an H100 has both.
    fused_attention_stablehlo.check_cudnn_version = lambda: 91000
    fused_attention_stablehlo.check_compute_capability = lambda capability: True
    sys.path.insert(0, str(folder))
    importlib.import_module("redco_runtime.remat").device_memory = lambda: MEMORY[kind]
    package = folder.name.replace("-", "_")
    config, sharding, steps = (
        importlib.import_module(f"{package}.{name}") for name in ("config", "sharding", "steps")
    )
    shape = dict.fromkeys(sharding.AXES, 1) | dict(axes)
    auto = (AxisType.Auto,) * len(shape)
    mesh = Mesh(devices.reshape(tuple(shape.values())), tuple(shape), axis_types=auto)
    preset = config.PRESETS["full"]
    model = replace(preset.model, **{"max_positions": max(length, 1)} | dict(sizes))
    train = replace(preset.train, batch_size=rows, micro_batches=micro_batches)
    run = replace(preset, model=model, train=train)
    with jax.set_mesh(mesh), contextlib.redirect_stdout(sys.stderr):  # stdout is the caller's
        built = steps.build(run)
        ids = jax.ShapeDtypeStruct((rows, length), jnp.int32, sharding=built.batch)
        batch = {
            "input_ids": ids,
            "mask": jax.ShapeDtypeStruct(ids.shape, jnp.bool_, sharding=built.batch),
        }
        lowered = built.train.trace(built.state, batch).lower()
        with tempfile.TemporaryDirectory() as dump:
            tpu = devices.flat[0].platform == "tpu"
            text, peak = _compile(lowered, dump if tpu else "")
    return Compiled(text, peak, built.shapes, model)


def _compile(lowered: Any, dump: str) -> tuple[str, int]:
    """Return the text and the peak of a program.

    dump: a folder, for a TPU: libtpu's own asynchronous fusions do not parse back, but are dumped.
    """
    options = {"xla_dump_to": dump, "xla_dump_hlo_as_text": True} if dump else None
    compiled = lowered.compile(compiler_options=options)
    memory = compiled.memory_analysis()
    peak = memory.argument_size_in_bytes + memory.temp_size_in_bytes
    if not dump:
        return compiled.as_text(), peak
    texts = Path(dump).glob("*train*after_optimizations_after_buffer_assignment.txt")
    return max(texts, key=os.path.getsize).read_text(), peak
