"""The model families that redco writes itself: their sizes, and how to trace one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redco_new.sources.load import load_file
from redco_new.sources.lookup import look_up


@dataclass(frozen=True)
class Family:
    """A file of templates/models, and what a project of it needs to know.

    model_class, config_class: names in the file.  title: of the full model.
    tokenizer: Hugging Face id of the full model's tokenizer.
    sequence_length: of the full model, in tokens.
    tiny: shards -> the fields of the tiny preset's config, which divide where the full model's do.
    """

    name: str
    file: str
    model_class: str
    config_class: str
    title: str
    tokenizer: str
    sequence_length: int
    tiny: Callable[[int], dict[str, int]]


def _tiny_gpt_j(shards: int) -> dict[str, int]:
    heads = math.lcm(8, math.gcd(16, shards))
    return {
        "vocab_size": shards * -(-384 // shards),
        "embed_dim": 16 * heads,
        "mlp_dim": 64 * heads,
        "num_layers": 2,
        "num_heads": heads,
        "rotary_dim": 8,
        "max_positions": 256,
    }


FAMILIES = {
    "gpt-j": Family(
        name="gpt-j",
        file="gpt_j.py",
        model_class="GPTJ",
        config_class="GPTJConfig",
        title="GPT-J-6B",
        tokenizer="EleutherAI/gpt-j-6b",
        sequence_length=2048,
        tiny=_tiny_gpt_j,
    ),
}


def find_family(name: str) -> Family:
    """The family of that name. Raises RedcoError that suggests the near ones."""
    return look_up("model", name, FAMILIES)


def abstract_model(family: Family, template: Path, **settings: Any) -> tuple[Any, Any]:
    """(graph definition, parameters as a nested dict of ShapeDtypeStructs) of a family's model.

    settings: fields of its config that differ from the defaults. Nothing is computed.
    """
    from flax import nnx

    module = load_file(template / "models" / family.file)
    config = getattr(module, family.config_class)(**settings)
    model = nnx.eval_shape(lambda: getattr(module, family.model_class)(config, rngs=nnx.Rngs(0)))
    graph, variables = nnx.split(model, nnx.Param)
    return graph, nnx.to_pure_dict(variables)
