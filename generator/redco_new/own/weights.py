"""What weights.py of a project of a user's class prints."""

from __future__ import annotations

from dataclasses import dataclass

from redco_new.own.source import ModelSource


@dataclass(frozen=True)
class WeightsSource:
    """What templates/own/weights prints.

    package: that Python imports
    name: of the user's class
    model_class, config_class: of model.py
    example: a path in the user's class
    linen: whether it is of Flax Linen, whose paths begin with a collection
    tiny: whether the preset tiny has other sizes
    run_apart, model_apart: Python for what is stored as several, by the config of a run or of the class
    """

    package: str
    name: str
    model_class: str
    config_class: str
    example: str
    linen: bool
    tiny: bool
    run_apart: str
    model_apart: str


def weights_source(package: str, source: ModelSource, linen: bool) -> WeightsSource:
    """Return what weights.py prints of a class, of Flax Linen or of NNX."""
    choice = "TINY_APART if {} == TINY.model else APART" if source.tiny else "APART"
    return WeightsSource(
        package=package,
        name=source.name,
        model_class=source.model_class,
        config_class=source.config_class,
        example="params/Dense_0/kernel" if linen else "layers/0/kernel",
        linen=linen,
        tiny=bool(source.tiny),
        run_apart=choice.format("config.model"),
        model_apart=choice.format("config"),
    )
