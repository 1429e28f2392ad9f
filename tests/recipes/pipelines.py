"""The pipeline of a recipe as a module, and a config that it can be given."""

from types import ModuleType, SimpleNamespace
from typing import Any

from redco_new.models.recipes import RECIPES
from redco_new.render.execute import load_text
from redco_new.render.template import open_template


def pipeline(
    recipe: str,
    routed: bool = False,
    adapted: bool = False,
    causal: bool = False,
    features: tuple[str, ...] = (),
) -> ModuleType:
    """A recipe's pipeline.py, imported."""
    with open_template() as template:
        facts = ("project", routed, adapted, causal)
        texts = RECIPES[recipe].having(features).print_files(template, *facts)
    return load_text(f"{recipe}/pipeline.py", texts["pipeline.py"])


def config(data: dict[str, Any], model: dict[str, Any], seed: int = 0) -> SimpleNamespace:
    """What a pipeline reads of a project's Config."""
    sections = {"data": data, "model": model, "train": {"seed": seed}}
    return Section(**{name: Section(**x) for name, x in sections.items()})


class Section(SimpleNamespace):
    """It is known by itself, as a frozen dataclass is by its fields: a pipeline may remember what it read."""

    __hash__ = object.__hash__
