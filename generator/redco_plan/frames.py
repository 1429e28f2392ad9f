"""Whose line it is: of the user, of a package that models are in, or of what models are made with."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal

Owner = Literal["user", "package", "library"]

INSTALLED = {"site-packages", "dist-packages"}  # folders that pip and Debian install into
# Packages that models call, and that no model is in.
LIBRARIES = {"beartype", "chex", "distrax", "einops", "flax", "jax", "jaxlib", "jaxtyping"} | {
    *("numpy", "optax", "redco_fit", "redco_new", "redco_plan", "redco_runtime")
}
STDLIB = f"{sysconfig.get_path('stdlib')}/"
GENERATOR = f"{Path(__file__).parents[1]}/"


@cache
def owner_of(file: str) -> Owner:
    """Return whose file it is; code of no file, such as that of dataclasses, is a library's."""
    parts = Path(file).parts
    inside = [i for i, part in enumerate(parts) if part in INSTALLED]
    if inside:
        package = parts[inside[-1] + 1].removesuffix(".py")
        return "library" if package in LIBRARIES else "package"
    own = file.startswith((STDLIB, GENERATOR, "<")) or _is_runtime(Path(file).parents)
    return "library" if own else "user"


def _is_runtime(folders: Iterable[Path]) -> bool:
    """Tell whether one of the folders is redco's runtime: at home, or in a project."""
    names = ("redco_runtime", "runtime")
    return any(x.name in names and (x / "base/contracts.py").exists() for x in folders)
