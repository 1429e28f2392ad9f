"""The rates by which a model drops in training: those of a checkpoint's config.json, or of --dropout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from redco_new.errors import RedcoError
from redco_new.models.families import FAMILIES
from redco_new.models.family import HEAD
from redco_new.models.find import Model
from redco_new.models.hf_config import config_class
from redco_new.models.recipes import Recipe
from redco_new.render.values import is_number
from redco_new.request import CONFIG_RATES, Request


def with_dropout(model: Model, request: Request, recipe: Recipe) -> Model:
    """Return the model with the rates that it drops by among its sizes, where they are above 0.

    Those of its checkpoint, or the one that --dropout asks for, of `_usual` keys; a size that has a name drops
    nothing by itself. Raises RedcoError for what cannot be.
    """
    rate, keys = request.dropout, _usual(model, recipe)
    if rate == CONFIG_RATES:
        rates = _rates_of(model, recipe) if recipe.drops else {}
    elif rate and not keys:
        others = ", ".join(name for name, one in FAMILIES.items() if one.dropout)
        what = f"{model.title} is a model without dropout"
        raise RedcoError("--dropout", what, f"leave it out; those that have it are {others}")
    elif rate and not recipe.drops:
        what = f"the recipe {recipe.name} compares what models say, and trains without dropout"
        raise RedcoError("--dropout", what, "leave it out")
    else:
        rates = dict.fromkeys(keys, float(rate)) if rate else {}
    full, tiny = (replace(one, sizes=one.sizes | rates) for one in (model.full, model.tiny))
    return replace(model, full=full, tiny=tiny)


def dropout_notes(model: Model, request: Request, recipe: Recipe) -> list[str]:
    """Return what the user should know of rates that a checkpoint asks for and that are not in its project."""
    if model.source is None or request.dropout != CONFIG_RATES:
        return []
    rates = {k: v for k, v in dropout_rates(model.source).items() if k not in model.full.sizes}
    if not rates:
        return []
    named = ", ".join(f"{key} {rate}" for key, rate in rates.items())
    why = (
        "model.py has none"
        if recipe.drops
        else f"the recipe {recipe.name} compares what models say"
    )
    return [
        f"the config.json of {request.model} asks for dropout or noise in training ({named}), and {why}: it is trained without; "
        "export writes these keys as they were"
    ]


def dropout_rates(source: Mapping[str, Any]) -> dict[str, float]:
    """Return the keys of a checkpoint's config.json, or of its class, that ask for dropout or noise in layers, and their rates."""
    return rates_in(config_class(source["model_type"])().to_dict() | source)


def rates_in(keys: Mapping[str, Any]) -> dict[str, float]:
    """Return those of the keys of a config that ask for dropout or noise in layers, and their rates."""
    return {
        key: rate
        for key, rate in sorted(keys.items())
        if ("drop" in key or "jitter" in key)
        and not key.startswith(("summary", "classifier"))
        and is_number(rate)
        and rate > 0
    }


def _rates_of(model: Model, recipe: Recipe) -> dict[str, float]:
    """Return the rates of a checkpoint that its family knows. Raises RedcoError for one that is no share."""
    if model.source is None:
        return {}
    rates, sites = dropout_rates(model.source), _sites(model, recipe)
    if key := sites.get(HEAD):
        own = model.source.get(key)
        rates[key] = rates.get(sites["residual"], 0) if own is None else own
    for key in sites.values():
        rate = rates.get(key, 0)
        if not 0 <= rate < 1:
            what = f"{key} is {rate!r}, and not a number from 0 to below 1"
            raise RedcoError(f"config.json of {model.title}", what, "mend that value")
    return {key: rates[key] for key in dict.fromkeys(sites.values()) if rates.get(key)}


def _usual(model: Model, recipe: Recipe) -> list[str]:
    """Return the keys that a family knows and that transformers' config class has above 0.

    Where none is, that of what layers add, as Dosovitskiy et al. 2021 had it in ViT (appendix B.1). The key of a head
    says null there: as that.
    """
    sites, defaults = _sites(model, recipe), model.family.defaults
    usual = [key for key in dict.fromkeys(sites.values()) if defaults[key] or defaults[key] is None]
    return usual or [key for site, key in sites.items() if site == "residual"]


def _sites(model: Model, recipe: Recipe) -> dict[str, str]:
    """Return where a model of a project drops: at HEAD only where its recipe puts a head on it."""
    head = recipe.head_of(model.family.provides)
    return {site: key for site, key in model.family.dropout.items() if site != HEAD or head}
