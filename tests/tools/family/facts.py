"""What can be said of a new family without a person: of transformers' class, and of a neighbour that is there."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from families.reference import reference

from family.keys import names_of
from redco_new.errors import RedcoError
from redco_new.models.families import FAMILIES
from redco_new.models.family import Family
from redco_new.models.find import is_checkpoint
from redco_new.models.hf_config import (
    checkpoint_config,
    config_class,
    import_transformers,
    make_config,
    printed_keys,
    read_source,
    read_transformers,
)

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Theirs:
    """What transformers says of a kind of model.

    kind: its config class.
    architecture: the PyTorch class, of the same task as the neighbour's.
    source: the config.json that was named; {} where a class was.
    """

    kind: Any
    architecture: str
    source: Mapping[str, Any]

    @property
    def defaults(self) -> dict[str, Any]:
        """The keys that the config class has by default."""
        return printed_keys(read_transformers(self.kind(), {}), set())

    @property
    def checkpoint(self) -> str:
        """The checkpoint on the hub that transformers names for the class; "" where it names none."""
        name = re.search(
            r'checkpoint="([^"]+)"', inspect.getsource(sys.modules[self.kind.__module__])
        )
        return name[1] if name else ""

    @property
    def size(self) -> dict[str, Any]:
        """The keys of the config.json that was named, where they differ from these."""
        if not self.source:
            return {}
        config = read_transformers(read_source(self.source, self.kind.model_type), self.source)
        keys, defaults = printed_keys(config, set()), self.defaults
        return {key: value for key, value in keys.items() if defaults.get(key, ...) != value}

    def model(self, keys: Mapping[str, Any]) -> Any:
        """Return the PyTorch model of these keys, without numbers."""
        import torch
        import transformers

        with torch.device("meta"):
            return getattr(transformers, self.architecture)(self.kind(**keys))

    def count(self, keys: Mapping[str, Any]) -> int:
        """Return its parameters."""
        return sum(x.numel() for x in self.model(keys).parameters())

    def shapes(self, keys: Mapping[str, Any]) -> Shapes:
        """Return the shapes of its tensors; {} in a name stands for the number of a layer."""
        tensors = self.model(keys).state_dict().items()
        return {re.sub(r"\.\d+\.", ".{}.", name): tuple(x.shape) for name, x in tensors}


def find_theirs(hf: str, like: Family) -> Theirs:
    """Return what transformers says of `hf`: a folder with config.json, an id of the hub, or a config class.

    Raises RedcoError where there is no such thing, or no model of it for the task of the neighbour.
    """
    auto = import_transformers(hf).models.auto
    source: Mapping[str, Any] = {}
    todo = "give a folder with config.json, an id of the hub, or a class such as Olmo2Config"
    if is_checkpoint(hf):
        try:
            source, _ = checkpoint_config(hf, Path(), None)
        except RedcoError as error:
            raise RedcoError("HF", error.what, todo) from error
        model_type = source["model_type"]
    else:
        names = auto.configuration_auto.CONFIG_MAPPING_NAMES
        by_class = {name: model_type for model_type, name in names.items()}
        model_type = by_class.get(hf, hf)
        if model_type not in names:
            raise RedcoError("HF", f"transformers has no {hf}", todo)
    kind = config_class(model_type)
    tasks = [
        mapping
        for name, mapping in vars(auto.modeling_auto).items()
        if name.endswith("_MAPPING_NAMES")
        and "PRETRAINING" not in name  # a class of several tasks
        and mapping.get(like.model_type) == like.architecture
    ]
    for task in tasks:
        if model_type in task:
            classes = task[model_type]  # one, or that for the task among several
            return Theirs(kind, classes if isinstance(classes, str) else classes[0], source)
    what = f"transformers has no {model_type} for the task of {like.architecture}"
    raise RedcoError("LIKE", what, "name another neighbour")


def find_keys(like: Family, theirs: Theirs) -> tuple[dict[str, str], list[str]]:
    """Return field of our config class -> key of config.json, by equal names, and the fields without one.

    A name that transformers knows a key by besides counts too: hidden_size is n_embd in GPT-2. A field that the
    neighbour works out where its key says nothing needs none.
    """
    of_like = find_theirs(like.model_type, like).kind()
    usual = {key: name for name, key in of_like.attribute_map.items()}
    own, there = theirs.kind.attribute_map, theirs.kind()
    keys, without = {}, []
    for field, key in like.keys.items():
        name = usual.get(key, key)
        names = [x for x in (key, own.get(name, name), name) if x in theirs.defaults]
        if key not in like.defaults and hasattr(there, key) == hasattr(of_like, key):
            names.insert(0, key)  # transformers writes it otherwise, or a config.json alone has it
        if names:
            keys[field] = names[0]
        elif not works_out(like, field):
            without.append(field)
    return keys, without


def refusal(like: Family, theirs: Theirs) -> str:
    """Return why a family's `read` refuses what another class has by default; "" where it takes it."""
    defaults = {key: theirs.defaults.get(key, value) for key, value in like.defaults.items()}
    try:
        like.read(make_config(theirs.kind.model_type, {**defaults, **theirs.defaults}))
    except RedcoError as error:
        return error.what
    except (AttributeError, KeyError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def works_out(family: Family, field: str) -> bool:
    """Return whether a family works a field out where the config.json does not say it."""
    config = make_config(family.model_type, {**family.defaults, family.keys[field]: None})
    try:
        return family.read(config).sizes[field] is not None
    except (RedcoError, TypeError):
        return False


def small_keys(like: Family, theirs: Theirs, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the neighbour's small model of the tests as keys of this class: those that it has, and plain values."""
    of_like, there = find_theirs(like.model_type, like).kind(), theirs.kind()
    small = {}
    for key, value in reference(like.name).small.items():
        field = next((x for x, other in like.keys.items() if other == key), "")
        own = keys.get(field, key)
        if (hasattr(there, own) or not hasattr(of_like, key)) and not isinstance(value, Mapping):
            small[own] = value
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    least = small.get("vocab_size", 0)
    outside = {key for key in tokens if not _within(theirs.defaults.get(key), least)}
    return small | {key: x for key, x in tokens.items() if least and key in outside}


def _within(token: Any, size: int) -> bool:
    """Return whether a token, or each of several, is of a vocabulary of this size; none is."""
    return all(x is None or x < size for x in (token if isinstance(token, list) else [token]))


@dataclass(frozen=True)
class Difference:
    """The tensors of a model beside those of its neighbour, of the same sizes: names, and shapes."""

    new: Shapes
    gone: Shapes
    other: Shapes

    def __bool__(self) -> bool:
        return bool(self.new or self.gone or self.other)

    @property
    def lines(self) -> list[str]:
        """What there is, for people."""
        kinds = {"it has": self.new, "it has not": self.gone, "of another shape": self.other}
        return [f"{kind}: {name} {shape}" for kind, x in kinds.items() for name, shape in x.items()]


def differ(like: Family, theirs: Theirs, small: Mapping[str, Any]) -> Difference:
    """Return how the tensors of a small model differ from its neighbour's."""
    ours = theirs.shapes(small)
    of_like = find_theirs(like.model_type, like).shapes(reference(like.name).small)
    return Difference(
        {name: shape for name, shape in ours.items() if name not in of_like},
        {name: shape for name, shape in of_like.items() if name not in ours},
        {k: shape for k, shape in ours.items() if k in of_like and of_like[k] != shape},
    )


def find_like(name: str) -> Family:
    """Return the family of that name. Raises RedcoError."""
    if name not in FAMILIES:
        raise RedcoError("LIKE", f"there is no family {name}", f"name one of {', '.join(FAMILIES)}")
    return FAMILIES[name]


@dataclass(frozen=True)
class Draft:
    """A family before a person has decided anything.

    name: as --model has it. hf: what was named of transformers.
    keys: field of the config class -> key of config.json. without: the fields of which no key is known.
    more: keys of the class that the neighbour's has not, and no field reads.
    refusal: why the neighbour's `read` refuses what the class has by default; "" where it takes it.
    small: keys of a small model for its test.
    difference: its tensors beside the neighbour's.
    """

    name: str
    hf: str
    like: Family
    theirs: Theirs
    keys: Mapping[str, str]
    without: list[str]
    more: list[str]
    refusal: str
    small: Mapping[str, Any]
    difference: Difference

    @property
    def module(self) -> str:
        """What its files are called."""
        return self.name.replace("-", "_")

    @property
    def model_class(self) -> str:
        """The class that model.py defines."""
        return self.theirs.architecture.partition("For")[0].removesuffix("LMHeadModel")

    @property
    def own(self) -> bool:
        """Whether its model may differ from the neighbour's."""
        return bool(self.difference or self.more or self.refusal)


def draft(name: str, like: str, hf: str) -> Draft:
    """Return all that follows for a family `name` of its neighbour and of transformers. Raises RedcoError."""
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise RedcoError(
            "NAME", f"{name!r} is no name of a family", "write it as olmo2 or gpt-neox"
        )
    family = find_like(like)
    theirs = find_theirs(hf, family)
    keys, without = find_keys(family, theirs)
    had = family.defaults.keys() | {*keys.values()} | names_of(family.read)
    more = sorted(theirs.defaults.keys() - had)
    small = small_keys(family, theirs, keys)
    difference = differ(family, theirs, small)
    why = refusal(family, theirs)
    return Draft(name, hf, family, theirs, keys, without, more, why, small, difference)
