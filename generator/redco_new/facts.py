"""Every decision that a template prints. Templates ask nothing; what they need is named here."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from redco_new import assets
from redco_new.request import REST, Request
from redco_new.sharding.classes import LETTERS
from redco_new.sharding.plan import Plan, plan_sharding
from redco_new.sources.families import abstract_model, find_family
from redco_new.sources.recipes import find_recipe, loss_and_batch

# Sequences: the layout does not depend on their number, the cost of collectives scales with it.
TRACED_BATCH = 8
TEST_DEVICES = 8  # at most this many virtual devices in a project's own tests


def plan_for(request: Request, template: Path) -> Plan:
    """The layout of the requested model at full size, from its own loss."""
    import jax
    from flax import nnx

    family, recipe = find_family(request.model), find_recipe(request.recipe)
    graph, params = abstract_model(family, template, dtype=request.dtype)
    loss, batch = loss_and_batch(recipe, template, TRACED_BATCH, family.sequence_length)

    def forward(params: Any, batch: Any) -> jax.Array:
        return loss(nnx.merge(graph, params), batch, nnx.Rngs(0))[0]

    return plan_sharding(forward, params, batch, {**request.mesh, "data": 1})


def build(request: Request, template: Path) -> dict[str, Any]:
    """The facts of a project, by the names that the templates use."""
    family, plan = find_family(request.model), plan_for(request, template)
    recipe = find_recipe(request.recipe)
    test_mesh = small_mesh(request.mesh)
    return {
        "project": request.name,
        "package": request.package,
        "model": request.model,
        "recipe": request.recipe,
        "dtype": request.dtype,
        "mesh": dict(request.mesh),
        "request_toml": request.to_toml(),
        "model_class": family.model_class,
        "config_class": family.config_class,
        "title": family.title,
        "tokenizer": family.tokenizer,
        "sequence_length": family.sequence_length,
        "tiny": family.tiny(request.mesh["model"]),
        "devices": request.devices,
        "test_mesh": test_mesh,
        "test_devices": math.prod(test_mesh.values()),
        "dims_legend": legend(plan),
        "parameters": parameters(plan),
        "totals": totals(plan),
        "verbatim": verbatim(request, template, family.file, recipe.file),
    }


def small_mesh(mesh: dict[str, int]) -> dict[str, int]:
    """Axis sizes for the project's tests: divisors of the real ones, two rows of data at least."""
    sizes = {
        "data": 2 if mesh["data"] == REST else mesh["data"],
        **{a: mesh[a] for a in ("fsdp", "model")},
    }
    while math.prod(sizes.values()) > TEST_DEVICES:
        axis = max(sizes, key=lambda name: sizes[name])
        sizes[axis] //= next(k for k in range(2, sizes[axis] + 1) if sizes[axis] % k == 0)
    return sizes


def legend(plan: Plan) -> str:
    """`D embed, F mlp, ...`: the letters of the dims that parameters have."""
    labels = sorted({label for labels in plan.labels for label in labels})
    return ", ".join(f"{LETTERS.get(label, label)} {label}" for label in labels)


def parameters(plan: Plan) -> list[dict[str, str]]:
    """path, dims ("L D N"), spec (as Python) and reason of each parameter."""
    return [
        {
            "path": row["path"],
            "dims": " ".join(LETTERS.get(label, label) for label in row["dims"]) or "scalar",
            "spec": f"P({', '.join(repr(axis) for axis in row['spec'])})",
            "reason": row["reason"],
        }
        for row in plan.rows()
    ]


def totals(plan: Plan) -> dict[str, str]:
    """Figures of the full model for the README."""
    rows = plan.rows()
    count = sum(math.prod(row["shape"]) for row in rows)
    held = sum(math.prod(row["shard_shape"]) for row in rows)
    return {"parameters": f"{count / 1e9:.2f} billion", "per_device": f"{held / 1e9:.2f} billion"}


def verbatim(request: Request, template: Path, model: str, recipe: str) -> dict[str, str]:
    """The files that are copied as they are."""
    files = {
        f"{request.package}/model.py": template / "models" / model,
        f"{request.package}/pipeline.py": template / "recipes" / recipe,
    }
    for path in sorted((assets.runtime() / "redco_runtime").glob("*.py")):
        files[f"redco_runtime/{path.name}"] = path
    return {name: path.read_text(encoding="utf-8") for name, path in files.items()}
