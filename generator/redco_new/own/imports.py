"""How model.py of a project imports a class of the user's own: where it makes it, and not above.

A module may compute when it is imported, and boot() must have set the devices before. What it computes
then is outside of the trace that makes the model, which redco_runtime.nn.user_class sees to.
"""

from __future__ import annotations

from redco_new.own.build import AbstractModel
from redco_new.own.find import Reference


def import_lines(
    model: AbstractModel, example: Reference | None, call: str, replaces: bool
) -> tuple[str, ...]:
    """Return the lines of the imports of model.py, and of where the user's files are.

    call: of the class, as model.py has it
    replaces: whether it replaces fields of dataclasses
    """
    references = [model.reference, *([example] if example else [])]
    functions = sorted({_function(reference) for reference in references})
    lines = [f"from dataclasses import dataclass{', replace' if replaces else ''}"]
    lines += ["from pathlib import Path"] if "import_file" in functions else []
    lines += ["", "import jax"]
    lines += ["import jax.numpy as jnp"] if model.linen or "jnp." in call else []
    lines += ["import numpy as np"] if "np." in call.replace("jnp.", "") else []
    lines += ["from flax import nnx", ""]
    lines += [f"from redco_runtime.nn.user_class import {', '.join(functions)}"]
    lines += ["from redco_runtime.layout.unsharded import unsharded"] if model.shardings else []
    files = {_place(x, model): x.file for x in reversed(references) if x.file}
    lines += [""] if files else []
    lines += [f"{name} = Path(__file__).parents[1] / {file!r}" for name, file in files.items()]
    return tuple(lines)


def import_statements(reference: Reference, model: AbstractModel, package: str) -> tuple[str, ...]:
    """Return the imports that `reference_source` needs in another module than model.py."""
    place = (f"from {package}.model import {_place(reference, model)}",) if reference.file else ()
    return (*place, f"from redco_runtime.nn.user_class import {_function(reference)}")


def reference_source(reference: Reference, model: AbstractModel) -> str:
    """Return a class or function of the user's as Python, imported where it stands."""
    return f"{_function(reference)}({_place(reference, model)}).{reference.name}"


def _function(reference: Reference) -> str:
    """Return the function of redco_runtime.nn.user_class that imports the module of a reference."""
    return "import_file" if reference.file else "import_module"


def _place(reference: Reference, model: AbstractModel) -> str:
    """Return what that function gets: the constant of model.py that is a file's path, or a name."""
    if not reference.file:
        return f'"{reference.module}"'
    return "CLASS_FILE" if reference.file == model.reference.file else "EXAMPLE_FILE"
