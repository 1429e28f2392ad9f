"""The families that redco has templates of, and their sizes, for `redco models`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TypedDict

from redco_new.inspect import text, units
from redco_new.models.families import FAMILIES
from redco_new.models.family import Family
from redco_new.render.execute import load_text
from redco_new.render.template import Template
from redco_new.models.find import find_model

TRAINING = 16  # bytes a parameter: itself, its gradient and two moments of Adam, in float32


class CatalogRow(TypedDict):
    """A size of a family.

    model: the family
    size: as --size has it
    parameters: elements of all
    training_bytes: of all parameters, their gradients and moments
    recipe: what it is trained on unless a recipe is named
    checkpoint: its id on the Hugging Face hub
    """

    model: str
    size: str
    parameters: int
    training_bytes: int
    recipe: str
    checkpoint: str


def list_sizes(
    names: list[str], template: Template, progress: Callable[[str], None] = lambda step: None
) -> Iterator[CatalogRow]:
    """Yield a row for each size of these families, the default size first."""
    for name in names:
        progress(f"counting the parameters of {name}")
        family, modules = FAMILIES[name], dict[str, ModuleType]()
        for size, preset in family.sizes.items():
            count = count_parameters(family, size, template, modules)
            yield {
                "model": name,
                "size": size,
                "parameters": count,
                "training_bytes": TRAINING * count,
                "recipe": family.recipes[0],
                "checkpoint": preset.tokenizer,
            }


def count_parameters(
    family: Family, size: str, template: Template, modules: dict[str, ModuleType]
) -> int:
    """Return the elements of the parameters of a size.

    modules: the emitted model.py of each kind of the family; a kind that is missing is added
    """
    import jax
    from flax import nnx

    model = find_model(family.name, size, 1)
    kind = repr(model.full.quirks)
    if kind not in modules:
        modules[kind] = load_text("model.py", model.print_files(template, "package")["model.py"])
    config = getattr(modules[kind], family.config_class)(**model.full.sizes)
    build = getattr(modules[kind], family.model_class)
    abstract = nnx.state(nnx.eval_shape(lambda: build(config, rngs=nnx.Rngs(0))), nnx.Param)
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(abstract))


def print_catalog(rows: list[CatalogRow], *, as_json: bool) -> None:
    """Print a table, or JSON."""
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    from rich.console import Console

    table = text.make_grid("model", "size", "parameters", "to train", "recipe", "Hugging Face id")
    for row in rows:
        count = f"{row['parameters'] / 1e9:.2f} billion"
        needed = units.size_text(row["training_bytes"])
        table.add_row(row["model"], row["size"], count, needed, row["recipe"], row["checkpoint"])
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = text.WIDTH
    console.print(table)
    console.print(
        f"\nTo train: {TRAINING} bytes a parameter, which the devices share; activations come on top."
    )
