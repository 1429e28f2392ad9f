"""Every decision that a template prints. Templates ask nothing; what they need is named here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jax.sharding import PartitionSpec as P

from redco_new import assets
from redco_new.design import Design, find_design, plan_program, rows
from redco_new.mesh import REST
from redco_new.program import Program
from redco_new.request import Request
from redco_new.sharding.axes import inner_axes
from redco_new.sharding.classes import LETTERS
from redco_new.sharding.place import EXPERT
from redco_new.sharding.plan import Plan

TEST_DEVICES = 8  # at most this many virtual devices in a project's own tests


def build(request: Request, template: Path) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
    """The facts of a new project, and what is to be recorded of its model."""
    design = find_design(request, template)
    return gather(design, design.program(rows(request))), design.recorded


def gather(design: Design, program: Program) -> dict[str, Any]:
    """The facts of a project, by the names that the templates use.

    program: the loss of its model, which may be another by now than what `design` makes.
    """
    request, plan = design.request, plan_program(design.request, program)
    mesh = plan.mesh | {"data": request.mesh["data"]}
    test_mesh, known = small_mesh(mesh), design.facts()
    return {
        "project": request.name,
        "package": request.package,
        "model": request.model,
        "dtype": request.dtype,
        "request_toml": request.to_toml(),
        "devices": request.devices,
        "mesh": mesh,
        "mesh_example": ",".join(f"{axis}={size}" for axis, size in test_mesh.items()),
        "test_mesh": test_mesh,
        "test_devices": math.prod(test_mesh.values()),
        "axes_legend": axes_legend(mesh),
        "batch_axes": plan.batch_axes,
        "dims_legend": legend(plan),
        "activations": {name: repr_spec(spec) for name, spec in plan.activations.items()},
        "specs": specs(plan),
        "reasons": reasons(plan),
        "moments": moments(plan) if request.zero else {},
        "padded": padded(plan),
        "divided": {"sequence_length": inner_axes(mesh)} if request.sequence_parallel else {},
        "totals": totals(plan),
        "verbatim": verbatim(design),
        **known,
        "stateful": known["stateful"] or program.stateful,
    }


def axes_legend(mesh: Mapping[str, int]) -> str:
    """What each axis splits."""
    experts = ["expert the batch and the experts"] if EXPERT in mesh else []
    parts = ["data splits the batch", "fsdp the batch and the parameters", *experts]
    parts.append(f"{' and '.join(inner_axes(mesh))} the dims inside a layer")
    rest = (
        ".\nThe size -1 stands for the devices that the other axes leave"
        if REST in mesh.values()
        else ""
    )
    return "; ".join(parts) + rest


def small_mesh(mesh: Mapping[str, int]) -> dict[str, int]:
    """Axis sizes for the project's tests: divisors of the real ones, two rows of data at least."""
    sizes = {axis: 2 if size == REST else size for axis, size in mesh.items()}
    while math.prod(sizes.values()) > TEST_DEVICES:
        axis = max(sizes, key=lambda name: sizes[name])
        sizes[axis] //= next(k for k in range(2, sizes[axis] + 1) if sizes[axis] % k == 0)
    return sizes


def legend(plan: Plan) -> str:
    """`D embed, F mlp, ...`: the letters of the dims that parameters have."""
    labels = sorted({label for labels in plan.labels for label in labels})
    return ", ".join(f"{LETTERS.get(label, label)} {label}" for label in labels)


def specs(plan: Plan) -> dict[str, str]:
    """path -> spec, as Python, of each parameter."""
    rows = zip(plan.rows(), plan.partitions, strict=True)
    return {row["path"]: repr_spec(spec) for row, spec in rows}


def reasons(plan: Plan) -> dict[str, str]:
    """path -> "L D N | columns: makes heads": the dims of each parameter, and why it lies so."""
    texts = {}
    for row in plan.rows():
        dims = " ".join(LETTERS.get(label, label) for label in row["dims"]) or "scalar"
        texts[row["path"]] = f"{dims} | {row['reason']}"
    return texts


def moments(plan: Plan) -> dict[str, str]:
    """path -> spec, as Python, of what the optimizer keeps of each parameter."""
    return {p.path: repr_spec(spec) for p, spec in zip(plan.parameters, plan.moments, strict=True)}


def padded(plan: Plan) -> dict[str, tuple[int, ...]]:
    """path -> the number that each dim is a multiple of, for parameters that are padded."""
    parts = math.prod(plan.mesh[axis] for axis in inner_axes(plan.mesh))
    return {
        p.path: tuple(1 if n == size else parts for n, size in zip(stored, p.shape, strict=True))
        for p, stored in zip(plan.parameters, plan.stored, strict=True)
        if stored != p.shape
    }


def repr_spec(spec: P) -> str:
    """A PartitionSpec as Python."""
    entries = ("P.UNCONSTRAINED" if axes is P.UNCONSTRAINED else repr(axes) for axes in spec)
    return f"P({', '.join(entries)})"


def totals(plan: Plan) -> dict[str, str]:
    """Figures of the full model for the README."""
    rows = plan.rows()
    count = sum(math.prod(row["shape"]) for row in rows)
    held = sum(math.prod(row["shard_shape"]) for row in rows)
    return {"parameters": spell(count), "per_device": spell(held)}


def spell(count: int) -> str:
    """A number of parameters, for people: 6.05 billion."""
    for unit, word in ((1e9, "billion"), (1e6, "million")):
        if count >= unit:
            return f"{count / unit:.2f} {word}"
    return f"{count:,}"


def verbatim(design: Design) -> dict[str, str]:
    """The files that are taken as they are."""
    files = design.files()
    for path in sorted((assets.runtime() / "redco_runtime").glob("*.py")):
        files[f"redco_runtime/{path.name}"] = path.read_text(encoding="utf-8")
    return files
