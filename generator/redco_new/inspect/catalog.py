"""The families that redco has templates of, and their sizes, for `redco models`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from redco_new.inspect import text, units
from redco_new.models.families import FAMILIES
from redco_new.models.family import Family
from redco_new.render.execute import load_text
from redco_new.models.find import find_model

TRAINING = 16  # bytes a parameter: itself, its gradient and two moments of Adam, in float32
KEYS = ("model", "size", "parameters", "training_bytes", "recipe", "checkpoint")

Row = dict[str, Any]


def rows(
    names: list[str], template: Path, progress: Callable[[str], None] = lambda step: None
) -> Iterator[Row]:
    """KEYS of each size of these families, the default size first."""
    for name in names:
        progress(f"counting the parameters of {name}")
        modules: dict[str, Any] = {}
        for size, known in FAMILIES[name].sizes.items():
            count = parameters(FAMILIES[name], size, template, modules)
            recipe = FAMILIES[name].recipes[0]
            values = (name, size, count, TRAINING * count, recipe, known.tokenizer)
            yield dict(zip(KEYS, values, strict=True))


def parameters(family: Family, size: str, template: Path, modules: dict[str, Any]) -> int:
    """Elements of the parameters of a size. modules: the emitted model.py, by its quirks."""
    import jax
    from flax import nnx

    model = find_model(family.name, size, 1)
    kind = repr(model.full.quirks)
    if kind not in modules:
        modules[kind] = load_text("model.py", model.print_file(template, "package", "model.py"))
    config = getattr(modules[kind], family.config_class)(**model.full.sizes)
    build = getattr(modules[kind], family.model_class)
    abstract = nnx.state(nnx.eval_shape(lambda: build(config, rngs=nnx.Rngs(0))), nnx.Param)
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(abstract))


def show(found: list[Row], *, as_json: bool) -> None:
    """Print a table, or JSON."""
    if as_json:
        print(json.dumps(found, indent=2))
        return
    from rich.console import Console

    table = text.grid("model", "size", "parameters", "to train", "recipe", "Hugging Face id")
    for row in found:
        count = f"{row['parameters'] / 1e9:.2f} billion"
        needed = units.size(row["training_bytes"])
        table.add_row(row["model"], row["size"], count, needed, row["recipe"], row["checkpoint"])
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = text.WIDTH
    console.print(table)
    console.print(
        f"\nTo train: {TRAINING} bytes a parameter, which the devices share; activations come on top."
    )
