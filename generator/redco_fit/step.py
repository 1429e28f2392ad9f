"""The train step of a project, compiled for devices that are not here. Runs in fit's child process."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import io
import itertools
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src.cudnn import fused_attention_stablehlo
from redco_new.errors import RedcoError
from redco_new.generate.rollouts import imagine
from redco_new.render.execute import RuntimeOf
from redco_new.request import COMPUTE

from redco_fit.hardware import Hardware
from redco_fit.reading import Job
from redco_fit.target import Target

CUDNN = 91000  # the version that JAX 0.10 and 0.11 come with: 9.10; what this process has is none
LEAST_CAPABILITY = 8.0  # of cuDNN's attention (redco_runtime/nn/kernels.py)
SAID = ("remat:", "attention:", "experts:")  # beginnings of lines of the runtime on what it chose
OVERFLOW = "RESOURCE_EXHAUSTED"
MODULES = ("config", "pipeline", "sharding", "steps")


class OnHost(jax.sharding.NamedSharding):
    """A sharding in the memory of a host: one of a GPU that is not here forgets that, as do those of its program."""

    compiled = False
    memory_kind = property(lambda self: None if self.compiled else "pinned_host")
    __hash__ = jax.sharding.NamedSharding.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OnHost) and super().__eq__(other)


@dataclass(frozen=True)
class Step:
    """A step and its program.

    built: the project's `Steps`.  batch: name -> shape.  text: of the program, "" where it was refused.
    memory: what the compiler says of it.  refused: its words.  lines: what the runtime said of its choices.
    seconds: of tracing, lowering and compiling.
    """

    built: Any
    config: Any
    mesh: jax.sharding.Mesh
    batch: Mapping[str, jax.ShapeDtypeStruct]
    model_flops: int
    text: str = ""
    memory: Any = None
    refused: str = ""
    lines: tuple[str, ...] = ()
    seconds: float = 0.0


def compile_train_step(
    folder: Path, package: str, target: Target, devices: np.ndarray, job: Job
) -> Step:
    """Compile the step of the preset full of a project, as `job` wants it, for `devices` of a target.

    Raises RedcoError for what the job has wrong, and what the project's own code raises.
    """
    modules = import_project(folder, package)
    config = configure(modules["config"].PRESETS, job)
    target.check_products(getattr(config.train, "products", COMPUTE))
    hardware = target.hardware
    start, said = time.monotonic(), io.StringIO()
    with _pretending(hardware), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        mesh = lay_mesh(modules["sharding"].AXES, devices, job.mesh, hardware)
        with jax.set_mesh(mesh):
            built = modules["steps"].build(config)
            batch = abstract_batch(modules["pipeline"], config, built)
            flops = importlib.import_module("redco_runtime.step.flops").training_flops(built, batch)
            step = Step(built, config, mesh, batch, flops)
            lowered = built.train.trace(built.state, batch).lower()
            text, memory, refused = _compile(lowered, devices.flat[0].platform == "tpu")
    lines = [line for line in said.getvalue().splitlines() if line.startswith(SAID)]
    return replace(
        step,
        text=text,
        memory=memory,
        refused=refused,
        lines=tuple(dict.fromkeys(lines)),
        seconds=round(time.monotonic() - start, 1),
    )


def import_project(folder: Path, package: str) -> dict[str, Any]:
    """Return the modules of a project that make its step; redco_runtime is its own from then on.

    Raises RedcoError for a project that an earlier redco made.
    """
    if not (folder / package / "runtime").is_dir():
        raise RedcoError(
            str(folder), f"has no {package}/runtime: another redco made it", "redco update"
        )
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    if not any(isinstance(finder, RuntimeOf) for finder in sys.meta_path):
        sys.meta_path.insert(0, RuntimeOf(package))
    return {name: importlib.import_module(f"{package}.{name}") for name in MODULES}


def configure(presets: Mapping[str, Any], job: Job) -> Any:
    """Return the preset full with what a job changes.

    Its data is that of the preset tiny, which is always at hand, at the lengths of the full one.
    """
    full = presets["full"]
    data = presets["tiny"].data if "tiny" in presets else full.data
    lengths = {
        one.name: getattr(full.data, one.name)
        for one in dataclasses.fields(full.data)
        if one.name.endswith("_length")
    }
    if job.length is not None:
        if "sequence_length" not in lengths:
            what = "the examples of this project have no sequence_length"
            raise RedcoError("--seq", what, "leave it out")
        whole = lengths["sequence_length"]
        lengths = {name: max(1, size * job.length // whole) for name, size in lengths.items()}
    positions, length = getattr(full.model, "max_positions", None), lengths.get("sequence_length")
    config = replace(full, data=replace(data, **lengths))
    changes = dict(job.settings) | ({"batch_size": job.batch} if job.batch else {})
    for section in dataclasses.fields(config):
        values = getattr(config, section.name)
        own = {one.name for one in dataclasses.fields(values)} & {*changes}
        config = replace(
            config, **{section.name: replace(values, **{k: changes.pop(k) for k in own})}
        )
    if changes:
        raise RedcoError("settings", f"config.py has no {next(iter(changes))}", "leave it out")
    if length and positions and length > getattr(config.model, "max_positions", length):
        what = f"{length} tokens are more than the model's max_positions, {positions}"
        raise RedcoError("--seq", what, "give fewer, or raise max_positions in config.py")
    return config


def lay_mesh(
    axes: Mapping[str, int], devices: np.ndarray, wanted: Mapping[str, int], hardware: Hardware
) -> jax.sharding.Mesh:
    """Return the mesh of `devices` that a run would make: by sharding.py, or as a job wants it.

    Raises RedcoError where there are more or fewer devices, or where a TPU's torus has no such axes.
    """
    wanted, count = _parted(wanted, axes), devices.size
    if many := [axis for axis in wanted if axis not in axes and wanted[axis] > 1]:
        parts = [axis for axis in axes if axis.startswith(f"{many[0]}_")]
        split = f", which its sharding.py has as {' and '.join(parts)}" if parts else ""
        todo = (
            f"the axes of its sharding.py are {', '.join(axes)}; `redco update --mesh` makes others"
        )
        raise RedcoError("--mesh", f"the project has no axis {many[0]}{split}", todo)
    sizes = {axis: wanted.get(axis, 1) for axis in axes} if wanted else dict(axes)
    fixed = math.prod(size for size in sizes.values() if size > 0)
    spelled = ",".join(f"{axis}={size}" for axis, size in sizes.items())
    if count % fixed or (count != fixed and -1 not in sizes.values()):
        what = f"{spelled} does not make up the {count} devices of the hardware"
        todo = f"choose sizes whose product is {count}, such as data=-1 for the rest, or --hardware {hardware.name}:N"
        raise RedcoError("--mesh", what, todo)
    try:
        return importlib.import_module("redco_runtime.layout.mesh").make_mesh(sizes, list(devices))
    except NotImplementedError:  # jax.make_mesh puts each axis on whole sides of the torus
        sides = [len({one.coords[i] for one in devices}) for i in range(3)]
        what = f"a slice of {'x'.join(map(str, sides))} chips has no {spelled}"
        todo = f"give axes of {_axis_sizes(sides)} devices, or another shape of the slice"
        raise RedcoError("--mesh", what, todo) from None


def _parted(wanted: Mapping[str, int], axes: Mapping[str, int]) -> Mapping[str, int]:
    """Return `wanted` with the axes that sharding.py has an axis as, model_1 and model_2, where it has their size."""
    parted = dict[str, int]()
    for axis, size in wanted.items():
        parts = {part: n for part, n in axes.items() if part.startswith(f"{axis}_")}
        whole = axis not in axes and parts and math.prod(parts.values()) == size
        parted |= parts if whole else {axis: size}
    return parted


def _axis_sizes(sides: list[int]) -> str:
    """Return the sizes that an axis can have on a torus: the products of some of its sides."""
    some = (combination for n in range(4) for combination in itertools.combinations(sides, n))
    return ", ".join(map(str, sorted({*map(math.prod, some)})))


def abstract_batch(pipeline: Any, config: Any, steps: Any) -> dict[str, jax.ShapeDtypeStruct]:
    """Return the shapes of a batch: those of one example of the project's own, collated, batch_size times.

    Raises RedcoError where the devices do not divide it.
    """
    rows, parts, sharding = config.train.batch_size, config.train.micro_batches, steps.batch
    count = sharding.num_devices // sharding.shard_shape((sharding.num_devices,))[0]
    if rows % (count * parts):
        split = f", in {parts} micro-batches" if parts > 1 else ""
        what = f"{rows} examples do not divide over {count} groups of devices{split}"
        raise RedcoError("--batch", what, f"give a multiple of {count * parts}")
    arrays = pipeline.collate(_first_examples(pipeline, config, steps))
    return {
        name: jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype, sharding=sharding)
        for name, x in arrays.items()
    }


def _first_examples(pipeline: Any, config: Any, steps: Any) -> list[Any]:
    """Return an example, or those that a model that makes its own learns from, of the shapes that a run has."""
    examples = pipeline.examples(config)[0]
    if not (hasattr(pipeline, "rollout") and hasattr(pipeline, "minibatches")):
        return [examples[0]]

    def predict(arrays: Mapping[str, np.ndarray]) -> Any:
        batch = {
            name: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=steps.batch)
            for name, x in arrays.items()
        }
        return jax.eval_shape(steps.predict, steps.state.model, batch, jax.random.key(0))

    some = [examples[i] for i in range(config.train.batch_size)]
    return imagine(pipeline, config, some, predict)


@contextlib.contextmanager
def _pretending(hardware: Hardware) -> Iterator[None]:
    """Give the answers of `hardware` to what is asked of devices while a step is traced."""
    own = {  # which the project carries
        name.partition(".")[2]: importlib.import_module(f"redco_runtime.{name}")
        for name in ("step.remat", "step.host_moments", "nn.kernels", "nn.attention")
        if importlib.util.find_spec(f"redco_runtime.{name}")
    }
    if "remat" in own:
        vars(own["remat"])["device_memory"] = lambda: hardware.usable
    if "host_moments" in own and hardware.platform == "gpu":
        vars(own["host_moments"])["NamedSharding"] = OnHost
    fused_attention_stablehlo.check_cudnn_version = lambda: CUDNN
    fused_attention_stablehlo.check_compute_capability = lambda text: (
        hardware.capability >= float(text)
    )
    cached = [x for one in own.values() for x in vars(one).values() if hasattr(x, "cache_clear")]
    for function in cached:  # what was said of the step before is said again
        function.cache_clear()
    if hardware.platform == "gpu" and hardware.capability < LEAST_CAPABILITY:
        if "kernels" in own:
            own["kernels"].KERNELS.pop("gpu", None)
    key = jax.random.key

    def abstract(seed: int, **options: Any) -> Any:
        try:
            return key(seed, **options)
        except (
            AttributeError
        ):  # outside of a trace: a device that compiles only cannot make an array
            return jax.eval_shape(key, 0)

    jax.random.key = abstract  # type: ignore[assignment]
    try:
        yield
    finally:
        jax.random.key = key


def _compile(lowered: Any, tpu: bool) -> tuple[str, Any, str]:
    """Return the text of a program, what the compiler says of its memory, and why it refuses it, or "".

    libtpu's own asynchronous fusions do not parse back, but are dumped.
    """
    with tempfile.TemporaryDirectory() as dump:
        options = {"xla_dump_to": dump, "xla_dump_hlo_as_text": True} if tpu else None
        try:
            OnHost.compiled = True
            compiled = lowered.compile(compiler_options=options)
        except jax.errors.JaxRuntimeError as error:
            if OVERFLOW not in str(error):
                raise
            return "", None, str(error)
        finally:
            OnHost.compiled = False
        if not tpu:
            return compiled.as_text(), compiled.memory_analysis(), ""
        texts = Path(dump).glob("*train*after_optimizations_after_buffer_assignment.txt")
        return max(texts, key=os.path.getsize).read_text(), compiled.memory_analysis(), ""
