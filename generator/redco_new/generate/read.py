"""Find what a request names: a model of a family, that of a recipe, or a class of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from redco_plan import Plan

from redco_new.errors import RedcoError
from redco_new.generate.design import Design, no_adapter
from redco_new.generate.family import read_family
from redco_new.generate.plan import plan_program
from redco_new.generate.pairs import check_pairs
from redco_new.models.find import NoFamily
from redco_new.render.template import Template
from redco_new.request import COMPUTE, CONFIG_RATES, HOST, RING, Request


def read_model(
    request: Request, template: Template, progress: Callable[[str], None] = lambda step: None
) -> Design:
    """Return the model that `request` names. Raises RedcoError where there is no such thing."""
    check_pairs(request)
    design = _read_model(request, template, progress)
    if request.optimizer_memory == HOST and any(one.optimizer for one in design.model.branches):
        what = f"{request.recipe} has an optimizer for each of its models"
        raise RedcoError("--optimizer-memory host", what, "leave it out")
    return design


def _read_model(request: Request, template: Template, progress: Callable[[str], None]) -> Design:
    """Return the same, whatever its optimizer."""
    if request.via and request.is_family:
        return _read_class(request, template, progress)
    if not request.model:
        from redco_new.generate.brought import check_brings_model, read_recipe_model

        check_brings_model(request.recipe)
    if request.lora and not (request.is_family or request.of_transformers):
        raise no_adapter(request)
    if request.loss and not (request.is_family or request.via):
        what = f"{request.model_name} is no family of redco's, and has the loss of its pipeline.py"
        raise RedcoError("--loss", what, "leave it out")
    if request.dropout not in (0, CONFIG_RATES) and not request.is_family:
        what = f"{request.model_name} is no family of redco's, and drops as its own code says"
        raise RedcoError("--dropout", what, "leave it out")
    if request.products != COMPUTE and not request.is_family:
        what = f"{request.model_name} is no family of redco's, and multiplies as its own code says"
        raise RedcoError("--products", what, "leave it out")
    if request.context_attention == RING and not request.is_family:
        what = f"{request.model_name} is no family of redco's, and attends as its own code says"
        raise RedcoError("--context-attention ring", what, "leave it out")
    if request.gradients_across != COMPUTE and not request.is_family:
        what = f"{request.model_name} is no family of redco's, whose gradients go as its rows do"
        raise RedcoError("--gradients-across", what, "leave it out")
    if request.own:
        from redco_new.generate.own import read_own_class  # late: no family needs its 20 modules

        return read_own_class(request, template, progress)
    if not request.model:
        return read_recipe_model(request, template)
    try:
        return read_family(request, template)
    except NoFamily:
        return _read_class(request, template, progress)


def _read_class(request: Request, template: Template, progress: Callable[[str], None]) -> Design:
    """Return the class of transformers that a model's config names. Raises RedcoError."""
    from redco_new.generate.hub_class import as_class  # late: few models need it

    return read_model(as_class(request), template, progress)


def plan_request(
    request: Request, template: Template, note: Callable[[str], None] = lambda text: None
) -> Plan:
    """Return the layout of the model that `request` names, at full size. Raises RedcoError.

    note: called with what the user should know of the model.
    """
    model = read_model(request, template)
    for text in model.notes:
        note(text)
    plan = plan_program(model.request, model.program())
    paths = (row["path"] for row in plan.rows())
    following = {path for path in paths if path.partition("/")[0] in model.targets}
    return replace(plan, frozen=plan.frozen | following)
