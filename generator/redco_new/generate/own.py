"""Find a class of the user's own: one of Flax, which a project imports, or of PyTorch, which is printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from redco_new.errors import RedcoError
from redco_new.generate.design import Design
from redco_new.generate.hub_class import with_inputs
from redco_new.generate.plan import most_parts
from redco_new.generate.own_design import ClassNames, own_design
from redco_new.generate.printed import print_torch, read_printed
from redco_new.generate.shards import check_positions
from redco_new.own.find import Reference, find_reference
from redco_new.own.model import find_own, read_usage
from redco_new.own.recipes import find_recipe
from redco_new.own.weights import weights_source
from redco_new.pytorch.install import is_torch, may_make_torch
from redco_new.render.template import Template
from redco_new.request import Request


def read_own_class(
    request: Request, template: Template, progress: Callable[[str], None] = lambda step: None
) -> Design:
    """Return the class that `request` names. Raises RedcoError if it cannot be made and called."""
    assert request.own
    name = request.model.rpartition(":")[2]
    if request.size:
        what = f"{name} has the size that its arguments say"
        raise RedcoError("--size", what, "leave it out")
    check_positions(request, name)
    if not request.of_transformers:  # which may be trained by the recipes of texts
        find_recipe(request.recipe)
    if request.printed:
        return read_printed(request, template)
    reference = find_reference("--model", request.model, request.folder)
    reference = _as_class(reference, request)
    if is_torch(reference.value):
        if request.of_transformers and getattr(reference.value, "config_class", None):
            request = replace(request, own=with_inputs(request.own, reference.value))
        return print_torch(request, reference, template, progress)
    if request.via:
        what = f"{name} is no torch.nn.Module"
        raise RedcoError("--via", what, "leave it out")
    return _read_flax(request, reference, template)


def _as_class(reference: Reference, request: Request) -> Reference:
    """Return a function that makes a module of PyTorch as its class. Raises RedcoError where it makes none."""
    assert request.own
    if not may_make_torch(reference.value):
        return reference
    from redco_new.pytorch.functions import with_class  # late: it imports more of torch

    usage = read_usage(reference, request.own, request.folder, "forward")
    return with_class(reference, usage.where, usage.arguments)


def _read_flax(request: Request, reference: Reference, template: Template) -> Design:
    """Return a class of Flax, which model.py imports from where the user has it."""
    assert request.own
    usage = read_usage(reference, request.own, request.folder, "__call__")
    parts = most_parts(request)
    model = find_own(reference, usage, request.recipe, request.own, request.name, parts)
    source = model.source
    texts = template.print_folder("own/model", source)
    weights = weights_source(request.package, source, model.abstract.linen)
    texts |= template.print_folder("own/weights", weights)
    names = ClassNames(source.model_class, source.config_class)
    return own_design(request, template, model, names, texts, {}, source.tiny)
