"""A class of the user's own, as a project trains it, and the files of the project that say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from redco_new.errors import RedcoError
from redco_new.request.own_class import BATCH, DTYPES, Input, OwnClass
from redco_new.render.python import print_python
from redco_new.own.find import Found, check_callable, find
from redco_new.own.build import Made, attempt, make, shapes
from redco_new.own.recipes import (
    OwnRecipe,
    Output,
    find_output,
    find_recipe,
    ids_of,
    inputs_of,
)
from redco_new.own.source import Source


@dataclass(frozen=True)
class OwnModel:
    """A class, made and called, and how it is trained.

    example: the function that gives its arguments, if there is one.
    """

    made: Made
    recipe: OwnRecipe
    output: Output
    inputs: Mapping[str, Input]
    example: Found | None

    @property
    def name(self) -> str:
        return self.made.found.name

    def facts(self) -> dict[str, Any]:
        """What the templates of its files print."""
        made, source = self.made, Source(self.made, self.inputs, self.example)
        return {
            "name": self.name,
            "model_class": f"{self.name}Model",
            "config_class": f"{self.name}Config",
            "linen": made.linen,
            "random": made.random,
            "mode": made.mode,
            "imports": source.imports(),
            "settings": source.settings,
            "construct": source.construct(),
            "start": source.start(),
            "parameters": ", ".join(f"{name}: jax.Array" for name in self.inputs),
            "call": source.call(),
            "output": self.output.source,
            "example": self.example.name if self.example else "",
            "inputs": {k: vars(x) | {"kind": kind(x)} for k, x in self.inputs.items()},
            "ids": ids_of(self.inputs),
            "masks": [k for k, x in self.inputs.items() if kind(x) == "mask" and len(x.shape) == 1],
            "target": self.target,
            "shape": self.output.shape[1:],
        }

    @property
    def target(self) -> str:
        """The array of a batch that is learned, besides the inputs; "" if there is none."""
        name = self.recipe.target
        return f"true_{name}" if name in self.inputs else name

    def batch(self, rows: int) -> dict[str, jax.ShapeDtypeStruct]:
        """An abstract batch, as its pipeline makes them."""
        found = shapes(self.inputs, rows)
        if self.recipe.name == "classify":
            found[self.target] = jax.ShapeDtypeStruct((rows,), "int32")
        elif self.target:
            found[self.target] = jax.ShapeDtypeStruct((rows, *self.output.shape[1:]), "float32")
        return found

    def text(self, template: Path, file: str) -> str:
        """What the template own/<file> makes of it."""
        return print_python(template, f"own/{file}.py.jinja", self.facts())


def find_own(model: str, recipe: str, own: OwnClass, project: str, folder: Path) -> OwnModel:
    """The class that `model` names, as `own` says and `recipe` trains it. Raises RedcoError.

    folder: that of the project, which paths are relative to.
    """
    how = find_recipe(recipe)
    found = find("--model", model, folder, project)
    arguments, inputs, where, example = own.arguments, own.inputs, "--config", None
    if own.example:
        where = f"--example {own.example}"
        example = find("--example", own.example, folder, project)
        arguments, inputs = call_example(where, example)
    made = make(found, where, arguments, inputs)
    output = find_output(how, made, own.output)
    return OwnModel(made, how, output, inputs_of(how, made, output), example)


def call_example(where: str, example: Found) -> tuple[dict[str, Any], dict[str, Input]]:
    """(arguments, inputs) that the user's function gives. Raises RedcoError."""
    check_callable(where, example)
    given = attempt(example.name, example.value)
    if not (
        isinstance(given, tuple) and len(given) == 2 and all(isinstance(x, dict) for x in given)
    ):
        what = f"{example.name}() gives no pair of dicts"
        raise RedcoError(where, what, "return (arguments of the constructor, {name: array})")
    return given[0], {name: read_input(where, name, x) for name, x in given[1].items()}


def read_input(where: str, name: str, x: Any) -> Input:
    """The shape and dtype of an array, or of a ShapeDtypeStruct, whose first dim is B."""
    shape, dtype = getattr(x, "shape", ()), str(getattr(x, "dtype", ""))
    if not shape or dtype not in DTYPES:
        what = f"the input {name} is no array with a first dim {BATCH}, of {', '.join(DTYPES)}"
        raise RedcoError(where, what, "give a numpy array")
    whole = isinstance(x, np.ndarray | jax.Array) and np.issubdtype(dtype, np.integer)
    return Input(tuple(shape[1:]), dtype, int(x.max()) + 1 if whole and dtype != "uint8" else None)


def kind(each: Input) -> str:
    """How examples of an input are made up: "ids", "mask" or "numbers"."""
    return "ids" if each.below else "mask" if each.dtype == "bool" else "numbers"
