"""The pipeline of a recipe as a module, and a config that it can be given."""

from types import ModuleType, SimpleNamespace
from typing import Any

from redco_new.render import assets
from redco_new.render.execute import load_text


def pipeline(recipe: str) -> ModuleType:
    """A recipe's pipeline.py, imported."""
    path = assets.templates() / "recipes" / recipe / "pipeline.py"
    return load_text(f"{recipe}/pipeline.py", path.read_text(encoding="utf-8"))


def config(data: dict[str, Any], model: dict[str, Any], seed: int = 0) -> SimpleNamespace:
    """What a pipeline reads of a project's Config."""
    sections = {"data": data, "model": model, "train": {"seed": seed}}
    return SimpleNamespace(**{name: SimpleNamespace(**x) for name, x in sections.items()})
