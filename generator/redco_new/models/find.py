"""What --model names: a family with a size of it, or a checkpoint in Hugging Face's format."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from redco_new.errors import RedcoError
from redco_new.request import is_folder
from redco_new.models.families import FAMILIES
from redco_new.models.family import Family, Settings
from redco_new.request.lookup import look_up

CONFIG = "config.json"


@dataclass(frozen=True)
class Model:
    """One model of a family.

    title: for people.  hf: what config.json says besides the sizes.  full, tiny: what transformers'
    config says, and what a tiny one of the same kind says.  tokenizer: Hugging Face id or folder.
    source: the config.json of a checkpoint; None for others.  absent: whether it is one of before.
    """

    family: Family
    title: str
    hf: Mapping[str, Any]
    full: Settings
    tiny: Settings
    tokenizer: str
    source: Mapping[str, Any] | None = None
    absent: bool = False

    def facts(self) -> dict[str, Any]:
        """What the templates of the model and of its weights print."""
        return {
            "title": self.title,
            "model_class": self.family.model_class,
            "config_class": self.family.config_class,
            "architecture": self.family.architecture,
            "sizes": self.full.sizes,
            "quirks": self.full.quirks,
            "keys": self.family.keys,
            "hf": self.hf,
        }


def find_model(
    name: str,
    size: str,
    shards: int,
    folder: Path = Path(),
    source: Mapping[str, Any] | None = None,
) -> Model:
    """The model that `--model name --size size` names; shards: that its tiny one divides by.

    folder: what the path of a checkpoint is relative to.  source: its config.json, for where it is not.
    Raises RedcoError if there is none, or what it says cannot be honoured.
    """
    if is_checkpoint(name):
        if size:
            what = f"{name} has its own size"
            raise RedcoError("--size", what, "leave it out, or give a family with --model")
        source, absent = checkpoint_config(name, folder, source)
        config = config_class(source["model_type"], name).from_dict(source, name_or_path=name)
        family = find_type(name, config.model_type)
        title = f"{family.title} ({Path(name).name})"
        model = make_model(family, title, config, name, shards)
        return replace(model, source=source, absent=absent)
    family = look_up("model", name, FAMILIES)
    known = look_up("size", size, family.sizes) if size else next(iter(family.sizes.values()))
    size = size or next(iter(family.sizes))
    config = config_class(family.model_type)(**known.config)
    return make_model(family, f"{family.title} {size}", config, known.tokenizer, shards)


def make_model(family: Family, title: str, config: Any, tokenizer: str, shards: int) -> Model:
    full = family.read(config)
    outside = dict.fromkeys(
        ("bos_token_id", "eos_token_id", "pad_token_id")
    )  # of a tiny vocabulary
    small = type(config)(**stored(config) | outside | family.shrink(config, shards))
    full, tiny = (spread(found, shards) for found in (full, family.read(small)))
    return Model(family, title, besides(config, family), full, tiny, tokenizer)


def spread(settings: Settings, shards: int) -> Settings:
    """With copies of key and value heads where there are fewer than shards, which split the queries.

    Then each device has a key and value head for its queries, and attention sends nothing.
    """
    sizes = settings.sizes
    if "num_kv_heads" not in sizes:
        return settings
    copies = shards // math.gcd(shards, sizes["num_kv_heads"])
    fit = copies > 1 and sizes["num_heads"] % shards == 0
    quirks = settings.quirks | {"copies": fit}
    return replace(settings, sizes=sizes | ({"kv_copies": copies} if fit else {}), quirks=quirks)


def is_checkpoint(name: str) -> bool:
    """Whether a name is a folder's, or an id of Hugging Face's hub."""
    return is_folder(name) or "/" in name


def find_type(name: str, model_type: str) -> Family:
    """The family of a checkpoint. Raises RedcoError that lists those there are."""
    for family in FAMILIES.values():
        if family.model_type == model_type:
            return family
    what = f"{name} is a {model_type}, which redco has no template of"
    raise RedcoError("--model", what, f"there are {', '.join(FAMILIES)}; or give your own class")


def checkpoint_config(
    name: str, folder: Path, known: Mapping[str, Any] | None
) -> tuple[dict[str, Any], bool]:
    """(config.json of a path from `folder` or of an id, or `known` where it is not there; whether so).

    Raises RedcoError if there is none.
    """
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # that PyTorch is missing
    from transformers import PretrainedConfig

    path = checkpoint_folder(name, folder) if is_folder(name) else None
    missing = path is not None and not (path / CONFIG).is_file()
    if missing and known is None:
        raise RedcoError("--model", f"{path} has no config.json", "give a checkpoint's folder")
    try:
        found = known if missing else PretrainedConfig.get_config_dict(str(path or name))[0]
    except (OSError, ValueError) as error:
        if path is not None or known is None:
            what = f"{name}: {str(error).strip().splitlines()[0]}"
            todo = "check the name and the network; a gated model needs `hf auth login`"
            raise RedcoError("--model", what, todo) from error
        found, missing = known, True
    if "model_type" not in found:
        raise RedcoError("--model", f"{name}: config.json has no model_type", "add it")
    return {key: value for key, value in found.items() if not key.startswith("_")}, missing


def checkpoint_folder(name: str, folder: Path) -> Path:
    """A checkpoint by its path from `folder`, that of the project, which may not be there yet."""
    return Path(os.path.normpath(folder.resolve() / name))


def config_class(model_type: str, name: str = "") -> Any:
    """transformers' class for that type. Raises RedcoError if there is none."""
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # that PyTorch is missing
    from transformers import CONFIG_MAPPING, logging

    logging.set_verbosity_error()
    try:
        return CONFIG_MAPPING[model_type]
    except KeyError:
        find_type(name, model_type)
        raise


LEFT_OUT = {"_name_or_path", "transformers_version", "dtype", "architectures", "model_type"}


def stored(config: Any) -> dict[str, Any]:
    """The keys of a transformers config that make an equal one."""
    return {key: value for key, value in config.to_dict().items() if key not in LEFT_OUT}


def besides(config: Any, family: Family) -> dict[str, Any]:
    """What config.json says besides the sizes, where it is not what transformers takes for granted."""
    kinds = {"model_type": family.model_type, "architectures": [family.architecture]}
    left_out = {*LEFT_OUT, *family.keys.values(), *family.derived}
    told = sorted(config.to_diff_dict().items())
    return kinds | {key: value for key, value in told if key not in left_out}
