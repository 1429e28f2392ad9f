"""A family of models: its template, the sizes that are known by name, and how to read its config."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from redco_new.errors import RedcoError


@dataclass(frozen=True)
class Size:
    """A size known by name.

    config: keyword arguments of transformers' config class, where they differ from its defaults.
    tokenizer: Hugging Face id of the model.
    """

    config: Mapping[str, Any]
    tokenizer: str


@dataclass(frozen=True)
class Settings:
    """What a config says, as templates print it.

    sizes: fields of the emitted config class -> plain values.
    quirks: what the emitted code depends on: the templates branch on nothing else.
    sequence_length: tokens of a training example by default; 0 for a model without a sequence.
    """

    sizes: dict[str, Any]
    quirks: dict[str, Any]
    sequence_length: int


@dataclass(frozen=True)
class Family:
    """A folder of templates/models, and what a project of it needs to know.

    name: what --model takes.  model_type, architecture: of config.json.
    model_class: that model.py defines; its config class is called so too, with Config behind.
    sizes: by name, the default first.
    keys: field of the emitted config class -> key of config.json, where one is the other.
    derived: further keys of config.json, which the emitted weights.py works out.
    read: transformers config -> Settings. Raises RedcoError that names what is not honoured.
    shrink: (transformers config, shards) -> keyword arguments that make a tiny one of it, with the
    same quirks, whose dims divide where the full one's do.
    """

    name: str
    title: str
    model_type: str
    architecture: str
    template: str
    model_class: str
    recipe: str
    sizes: Mapping[str, Size]
    keys: Mapping[str, str]
    read: Callable[[Any], Settings]
    shrink: Callable[[Any, int], dict[str, Any]]
    derived: tuple[str, ...] = ()

    @property
    def config_class(self) -> str:
        return f"{self.model_class}Config"


def read_keys(config: Any, keys: Mapping[str, str]) -> dict[str, Any]:
    """The fields that `keys` names, of a transformers config."""
    return {field: getattr(config, key) for field, key in keys.items()}


def check_equal(config: Any, **values: Any) -> None:
    """Raise RedcoError for the first key of a transformers config that has another value."""
    for key, value in values.items():
        found = getattr(config, key, value)
        if found != value:
            refuse(config, f"{key} is {found!r}, and redco's {config.model_type} has {value!r}")


def refuse(config: Any, what: str) -> NoReturn:
    """Raise RedcoError for what a family cannot honour in a transformers config."""
    where = f"config.json of {config.name_or_path or config.model_type}"
    raise RedcoError(where, what, "use another checkpoint, or a class of your own")
