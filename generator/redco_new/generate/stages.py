"""What goes with the axis `stage`, and the fields of a model whose layers are in stages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from redco_plan import STAGE

from redco_new.errors import RedcoError
from redco_new.models.families import FAMILIES
from redco_new.models.family import STAGE_FIELDS, Settings
from redco_new.models.find import Model
from redco_new.models.recipes import Recipe
from redco_new.request import Request

RECIPES = ("lm", "sft")  # whose loss reads the last hidden states alone, of texts
# Rotations that follow the longest text of a batch, which a micro-batch does not know.
BY_BATCH = ("dynamic", "longrope")


def with_stages(request: Request, model: Model, recipe: Recipe) -> Model:
    """Return the model with the fields of one in stages, where `request` asks for them. Raises RedcoError."""
    stages = request.mesh.get(STAGE, 1)
    if stages == 1:
        return model
    for what, todo in _obstacles(request, model, recipe, stages):
        raise RedcoError("--mesh", f"stage={stages}: {what}", todo)

    def of(settings: Settings, **sizes: Any) -> Settings:
        return replace(settings, sizes=settings.sizes | STAGE_FIELDS | sizes)

    return replace(model, full=of(model.full), tiny=of(model.tiny, num_layers=max(2, stages)))


def _obstacles(
    request: Request, model: Model, recipe: Recipe, stages: int
) -> Iterator[tuple[str, str]]:
    """Yield what cannot be in stages, and what to do."""
    layers, without = model.full.sizes.get("num_layers", 0), "leave the axis stage out"
    if not model.family.alike:
        alike = ", ".join(sorted(name for name, family in FAMILIES.items() if family.alike))
        what = f"the layers of {request.model_name} are not alike, or have more than hidden states to hand on"
        yield what, f"{without}; families that go: {alike}"
    elif getattr(model.full.quirks, "rope", "") in BY_BATCH:
        yield f"rotations of {request.model_name} follow the longest text of a batch", without
    elif recipe.name not in RECIPES:
        what = f"the recipe {recipe.name} has more than one pass through one model"
        yield what, f"{without}, or choose --recipe {' or '.join(RECIPES)}"
    elif layers % stages:
        good = ", ".join(str(n) for n in range(2, layers + 1) if layers % n == 0)
        yield f"{stages} stages do not divide {layers} layers", f"give one of {good}"
    elif any(rate in model.full.sizes for rate in model.family.dropout.values()):
        yield "a micro-batch does not know which of its numbers a step drops", "give --dropout 0"
