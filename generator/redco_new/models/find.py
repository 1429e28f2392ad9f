"""What --model names: a family with a size of it, or a checkpoint in Hugging Face's format."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from redco_new.errors import RedcoError
from redco_new.models.config_values import check_values
from redco_new.models.families import FAMILIES
from redco_new.models.family import (
    DROPS,
    HEAD,
    STAGE_FIELDS,
    Family,
    GroupedQuirks,
    Quirks,
    Settings,
)
from redco_new.models.hf_config import (
    change_config,
    checkpoint_config,
    make_config,
    names_within,
    printed_keys,
    read_source,
    read_transformers,
    text_keys,
)
from redco_new.render.template import Template
from redco_new.render.values import Name, Number, Plain, Text, words
from redco_new.request import is_folder
from redco_new.request.lookup import look_up


@dataclass(frozen=True)
class ModelContext:
    """What the templates of model.py and weights.py print.

    package: name that Python imports.
    title: of the model, for people.
    model_class, config_class: the classes of model.py.
    sizes: field of the config class -> its default.
    staged: whether devices have some of the layers each.
    quirks: what the code depends on besides sizes.
    keys: field of the config class -> key of config.json, where one is the other.
    hf: what config.json says besides the sizes.
    drops: where the model drops in training, of DROPS but HEAD -> the field that has the rate.
    rates: these fields, and that of HEAD -> what is dropped, for people.
    """

    package: Name
    title: str
    model_class: Name
    config_class: Name
    sizes: Mapping[Name, Number]
    staged: bool
    quirks: Quirks
    keys: Mapping[Name, Name]
    hf: Plain
    drops: Mapping[Name, Name]
    rates: Mapping[Name, Text]


@dataclass(frozen=True)
class Model:
    """One model of a family.

    title: for people.
    hf: what config.json says besides the sizes.
    full: what transformers' config says.
    tiny: what a tiny one of the same kind says.
    tokenizer: Hugging Face id or folder.
    source: the config.json of a checkpoint; None for others.
    absent: whether `source` comes from the record of a project, since the checkpoint is not there.
    """

    family: Family
    title: str
    hf: Mapping[str, Any]
    full: Settings
    tiny: Settings
    tokenizer: str
    source: Mapping[str, Any] | None = None
    absent: bool = False

    def context(self, package: str, written: Container[str] = ()) -> ModelContext:
        """Return what the templates of its family print.

        written: keys of config.json that its weights.py works out of sizes.
        """
        drops = {site: key for site, key in self.family.dropout.items() if key in self.full.sizes}
        rates = {
            key: _print_sites([site for site, other in drops.items() if other == key])
            for key in drops.values()
        }
        return ModelContext(
            package=package,
            title=self.title,
            model_class=self.family.model_class,
            config_class=self.family.config_class,
            sizes=self.full.sizes,
            staged=STAGE_FIELDS.keys() <= self.full.sizes.keys(),
            quirks=self.full.quirks,
            keys={**self.family.keys, **{rate: rate for rate in rates}},
            hf={k: v for k, v in self.hf.items() if k not in rates and k not in written},
            drops={site: key for site, key in drops.items() if site != HEAD},
            rates=rates,
        )

    @property
    def head_rate(self) -> str:
        """The field of the config class that has the rate of a recipe's head; "" where none drops."""
        key = self.family.dropout.get(HEAD, "")
        return key if key in self.full.sizes else ""

    @property
    def within(self) -> dict[str, str]:
        """Parts of the names of its tensors -> in the whole that a checkpoint is; {} where it is the whole."""
        return names_within(self.source or {})

    def print_files(self, template: Template, package: str) -> dict[str, str]:
        """Return the texts of "model.py" and "weights.py" in a project. Raises RedcoError."""
        folder = f"models/{self.family.template}"
        _, _, entries = template.read(f"{folder}/weights.py.jinja").partition("return CONFIG | {")
        written = re.findall(r'^ +"(\w+)": ', entries, re.MULTILINE)
        return template.print_folder(folder, self.context(package, written))


class NoFamily(RedcoError):
    """A checkpoint of a model that no family is."""


def find_model(
    name: str,
    size: str,
    shards: int,
    folder: Path = Path(),
    source: Mapping[str, Any] | None = None,
    context: int = 1,
) -> Model:
    """Return the model that `--model name --size size` names.

    shards: devices that split a layer, by which the tiny model divides where the full one does.
    context: devices that share the heads of each of these.
    folder: what the path of a checkpoint is relative to.
    source: config.json of the checkpoint as recorded, for where it is not there.
    Raises RedcoError if there is no such model, or what its config.json says cannot be honoured.
    """
    if is_checkpoint(name):
        if size:
            what = f"{name} has its own size"
            raise RedcoError("--size", what, "leave it out, or give a family with --model")
        source, absent = checkpoint_config(name, folder, source)
        keys = text_keys(source)
        family = _find_type(name, keys["model_type"])
        config = read_source(keys, name)
        title = f"{family.title} ({words(Path(name).name)})"
        model = make_model(family, title, read_transformers(config, keys), name, shards, context)
        return replace(model, source=source, absent=absent)
    family = look_up("model", name, FAMILIES)
    chosen = look_up("size", size, family.sizes) if size else next(iter(family.sizes.values()))
    size = size or next(iter(family.sizes))
    config = make_config(family.model_type, {**family.defaults, **chosen.config})
    return make_model(family, f"{family.title} {size}", config, chosen.tokenizer, shards, context)


def is_checkpoint(name: str) -> bool:
    """Return whether a name is a folder's, or an id of Hugging Face's hub."""
    return is_folder(name) or "/" in name


def _find_type(name: str, model_type: str) -> Family:
    """Return the family of a checkpoint. Raises RedcoError that lists those there are."""
    for family in FAMILIES.values():
        if family.model_type == model_type:
            return family
    what = f"{name} is a {model_type}, which redco has no template of"
    raise NoFamily("--model", what, f"there are {', '.join(FAMILIES)}; or give your own class")


def make_model(
    family: Family,
    title: str,
    config: SimpleNamespace,
    tokenizer: str,
    shards: int,
    context: int = 1,
) -> Model:
    """Return the model that a config of hf_config.py describes. Raises RedcoError."""
    check_values(config, family)
    full = family.read(config)
    # The ids of special tokens are of the full vocabulary, and need not be in a tiny one.
    outside = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    heads = shards * context
    shrunk = family.shrink(config, heads)
    if context > 1 and "vocab_size" in shrunk:  # words are split by what splits a layer alone
        shrunk["vocab_size"] = family.shrink(config, shards)["vocab_size"]
    small = change_config(config, outside | shrunk)
    kind = {"model_type": family.model_type, "architectures": [family.architecture]}
    hf = kind | printed_keys(config, besides={*family.keys.values()})
    full, tiny = (_copy_kv_heads(settings, heads) for settings in (full, family.read(small)))
    return Model(family, title, hf, full, tiny, tokenizer)


def _print_sites(sites: list[str]) -> str:
    """Return what is dropped at some of DROPS, for people."""
    if len(sites) > 2:
        return "activations, weights of attention"
    return ", ".join(DROPS[site] for site in sites)


def _copy_kv_heads(settings: Settings, shards: int) -> Settings:
    """Return the settings with copies of key and value heads, where shards outnumber these.

    Then each device has a key and value head for its queries, and attention sends nothing.
    """
    if not isinstance(settings.quirks, GroupedQuirks):
        return settings
    sizes = settings.sizes
    copies = shards // math.gcd(shards, sizes["num_kv_heads"])
    if copies == 1 or sizes["num_heads"] % shards:
        return settings
    return replace(settings, sizes=sizes | {"kv_copies": copies}).with_quirks(kv_copies=True)
