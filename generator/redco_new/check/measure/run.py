"""A run that is resumed, beside one that is not: train.py's own, of the preset tiny."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from redco_new.check.measure.child import STEPS, Project
from redco_new.check.measure.order import batches, digest

MIDDLE = STEPS // 2


def measure(project: Project) -> None:
    """Tell the losses, the checkpoint, and how the run that was resumed differs."""
    pipeline = project.modules["pipeline"]
    if hasattr(pipeline, "evaluate"):  # takes long, and changes no step
        del pipeline.evaluate
    whole, resumed = project.files / "whole", project.files / "resumed"
    with project.measuring("runs", f"training {STEPS} steps"):
        train(project, whole)
        losses = metrics(whole)
        if len(losses) != STEPS or not all(math.isfinite(one["loss"]) for one in losses):
            text = ", ".join(f"{one['loss']:.6g}" for one in losses)
            where = f"{project.package}/pipeline.py::loss"
            project.fault("runs", where, f"the losses of {STEPS} steps are {text or 'none'}")
        values = {name: [one[name] for one in losses] for name in ("loss", "grad_norm")}
        project.tell(fact="loss", value=values)
        project.tell(fact="checkpoint", value=describe(project, whole))
        with project.measuring("resume", f"resuming after {MIDDLE} steps"):
            shutil.copytree(whole, resumed, ignore=shutil.ignore_patterns("lock.json"))
            shutil.rmtree(resumed / "checkpoints" / str(STEPS))
            train(project, resumed)
            compare(project, whole, resumed)
    if not project.plays:
        with project.measuring("seeded", "making batches in another process"):
            with jax.set_mesh(mesh_of(project)):
                sharding = NamedSharding(mesh_of(project), project.modules["sharding"].BATCH)
                project.tell(fact="order again", value=[*map(digest, batches(project, sharding))])


def mesh_of(project: Project) -> Any:
    """Return the mesh of the project's tests."""
    return project.runtime("layout.mesh").make_mesh(project.mesh)


def train(project: Project, workdir: Path) -> None:
    """Train as train.py does, in `workdir`, from its last checkpoint if it has one."""
    run = project.runtime("run.record").Run(workdir, project.config, project.mesh, None)
    with jax.set_mesh(mesh_of(project)):
        project.modules["train"].train(project.modules["steps"].build(run.config), run)


def metrics(workdir: Path) -> list[dict[str, Any]]:
    """Return what was logged of each step."""
    lines = (workdir / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def tensors(project: Project, workdir: Path) -> tuple[Any, dict[str, Any]]:
    """Return (its folders, name -> head) of the last checkpoint of a run."""
    module, last = project.runtime("checkpoints.tensors"), workdir / "checkpoints"
    steps = [int(path.name) for path in last.iterdir() if path.name.isdecimal()]
    folders = [last / str(max(steps)), *sorted((last / "frozen").glob("[0-9]*"))[-1:]]
    return folders, module.heads(folders, ("",))[0]


def describe(project: Project, workdir: Path) -> dict[str, str]:
    """Return name -> "float32[2,128]" of what the last checkpoint has."""
    heads = tensors(project, workdir)[1]
    return {
        name: f"{np.dtype(head.dtype)}[{','.join(map(str, head.shape))}]"
        for name, head in sorted(heads.items())
    }


def compare(project: Project, whole: Path, resumed: Path) -> None:
    """Tell where the run that was resumed is not the other one, to the bit."""
    for one, other in zip(metrics(whole), metrics(resumed), strict=True):
        for name in ("loss", "grad_norm"):
            if one[name] != other[name]:
                what = f"{name} of step {one['step']} is {other[name]!r} after a resume, {one[name]!r} without"
                return project.fault("resume", f"{project.package}/train.py", what)
    values = [read(project, workdir) for workdir in (whole, resumed)]
    for name, array in values[0].items():
        if name not in values[1] or not np.array_equal(array, values[1][name], equal_nan=True):
            what = f"{name} of the last checkpoint is another after a resume"
            return project.fault("resume", f"{project.package}/steps.py", what)


def read(project: Project, workdir: Path) -> dict[str, np.ndarray]:
    """Return the tensors of the last checkpoint of a run."""
    folders, heads = tensors(project, workdir)
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    wanted = {k: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place) for k, x in heads.items()}
    leaves = project.runtime("checkpoints.tensors").read(folders, wanted)
    return {name: np.asarray(leaf) for name, leaf in leaves.items()}
