"""What llama.cpp opens: whether a model has a GGUF, and how its project writes one. Of its source: llama-cpp-python 0.3.36."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from redco_new.models.family import Family, Settings
from redco_new.models.recipes import Recipe

# What a GGUF of ours says of rotations: of the others, llama.cpp computes some otherwise than transformers.
ROPES = ("default", "linear", "llama3")
# llama.cpp has one gelu, the approximate one; where a model has the exact one, logits differ by less than 1e-3.
OTHERS = "silu", "relu"

MISSING = "not in this project: `redco update --features gguf` brings it"


@dataclass(frozen=True)
class Format:
    """What a project can export as.

    parser: of --format, as Python. names: what it takes, for people.
    imports: module of the runtime's checkpoints -> what export.py imports of it, besides.
    """

    parser: str
    names: str
    imports: tuple[tuple[str, str], ...]


def format_of(
    family: Family, settings: Settings, recipe: Recipe, features: Collection[str]
) -> Format:
    """Return what a model of a family exports as, trained by a recipe. features: of the request."""
    if why := _why_not(family, settings, recipe) or MISSING * ("gguf" not in features):
        return safetensors_alone(why)
    assert family.gguf is not None
    parser = f'gguf("{family.gguf.arch}", {family.gguf.change})'
    imports = (("gguf.changes", family.gguf.change), ("gguf.write", "gguf"))
    return Format(parser, "safetensors; of llama.cpp: gguf, gguf-q8_0", imports)


def safetensors_alone(why: str) -> Format:
    """Return what a model exports as that llama.cpp does not open. why: for people."""
    return Format(f'safetensors_alone("{why}")', "safetensors", ())


def _why_not(family: Family, settings: Settings, recipe: Recipe) -> str:
    """Return why llama.cpp does not open a model; "" where it does."""
    title, quirks, one = family.title, settings.quirks, family.gguf
    if one is None:
        return f"llama.cpp does not open {title}"
    if recipe.head_of(family.provides) or not recipe.writes:
        return "llama.cpp opens what writes texts, and no head"
    if (rope := getattr(quirks, "rope", "default")) not in (*ROPES, "one", "two", "slowed"):
        return f"llama.cpp does not rotate as this {title}, by {rope}"
    for name, value in one.quirks.items():
        if getattr(quirks, name) != value:
            return f"llama.cpp has no {title} whose {name} is {getattr(quirks, name)}"
    if getattr(quirks, "activation", "") in OTHERS:
        return f"llama.cpp has no {title} of another activation than gelu"
    return ""
