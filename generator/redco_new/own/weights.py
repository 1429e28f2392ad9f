"""What weights.py of a project of a user's class prints."""

from __future__ import annotations

from dataclasses import dataclass

from redco_new.own.source import ModelSource
from redco_new.render.values import Code, Name


@dataclass(frozen=True)
class WeightsSource:
    """What templates/own/weights prints.

    imports: the lines of the imports of the project's modules
    name: of the user's class
    config_class: of what the table of its paths is made by
    settings: Python for that, of a run's config
    make: Python that makes what has these paths, of it
    example: a path in the user's class
    linen: whether it is of Flax Linen, whose paths begin with a collection
    own_path: an expression of `path`, that of an array in model.py: its path in a class of NNX
    run_apart, model_apart: Python for what is stored as several, by the config of a run or of the class
    """

    imports: tuple[Code, ...]
    name: Name
    config_class: Name
    settings: Code
    make: Code
    example: Code
    linen: bool
    own_path: Code
    run_apart: Code
    model_apart: Code


def weights_source(package: str, source: ModelSource, linen: bool) -> WeightsSource:
    """Return what weights.py prints of a class, of Flax Linen or of NNX.

    package: the project's, that Python imports
    """
    imports = {
        "config": "TINY" if source.tiny else "",
        "formats": "open_arrays",
        "model": f"{source.config_class}, {source.model_class}",
        "sharding": "APART, TINY_APART" if source.tiny else "APART",
    }
    choice = "TINY_APART if {} == TINY.model else APART" if source.tiny else "APART"
    return WeightsSource(
        imports=tuple(f"from {package}.{key} import {x}" for key, x in imports.items() if x),
        name=source.name,
        config_class=source.config_class,
        settings="config.model",
        make=f"{source.model_class}(config, rngs=nnx.Rngs(0))",
        example="params/Dense_0/kernel" if linen else "layers/0/kernel",
        linen=linen,
        own_path='path.removeprefix("net/")',
        run_apart=choice.format("config.model"),
        model_apart=choice.format("config"),
    )
