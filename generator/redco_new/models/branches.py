"""Several models in one recipe: `Models` in its pipeline.py has a branch for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

MAIN = "model"  # the section of config.py with the sizes of the model that is trained

Sizes = Mapping[str, Any]


def _same(sizes: Sizes) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Branch:
    """A part of `Models`, whose parameters have a table of their own in sharding.py.

    name: of the attribute, which paths of parameters begin with.
    section: of config.py, with its sizes; "" for what is no model of a family, such as a head.
    sizes: (sizes of the model that --model names) -> those that its section has otherwise.
    frozen: whether it stays as it starts.
    optimizer: the section of config.py with its optimizer, where each model has its own.
    follows: the branch whose moving average it is.
    scores: whether it is a model of rewards that a run may name: it lies as the first one, with a score.
    base: whether it is what the first one starts as: under --lora, that one with a frozen copy of its adapter.
    """

    name: str
    section: str = MAIN
    sizes: Callable[[Sizes], dict[str, Any]] = _same
    frozen: bool = False
    optimizer: str = ""
    follows: str = ""
    base: bool = False
    scores: bool = False


def half_the_layers(sizes: Sizes) -> dict[str, Any]:
    """Return half the layers, as DistilBERT and DistilGPT2 have of their teachers (Sanh et al. 2019)."""
    return {"num_layers": max(1, sizes["num_layers"] // 2)}


def students_dtype(sizes: Sizes) -> dict[str, Any]:
    """Return no dtype, for which pipeline.py has that of the model that is trained."""
    return {"dtype": ""}


def section_changes(branches: Sequence[Branch], sizes: Sizes) -> dict[str, dict[str, Any]]:
    """Return section of config.py -> its sizes that are others than `sizes`, the model's own first."""
    own = {one.section: one.sizes(sizes) for one in branches if one.section}
    return {MAIN: {}} | own


def copies_of_first(branches: Sequence[Branch]) -> dict[str, str]:
    """Return branch -> the first one, of those that start as that one."""
    return {one.name: branches[0].name for one in branches if one.base}


def trained_parameters(branches: Sequence[Branch]) -> Any:
    """Return the filter of Flax of the parameters that are trained."""
    from flax import nnx  # late: recipes are listed without it

    frozen = [nnx.PathContains(one.name) for one in branches if one.frozen]
    return nnx.All(nnx.Param, nnx.Not(nnx.Any(*frozen))) if frozen else nnx.Param


def trained_filter(branches: Sequence[Branch]) -> str:
    """Return the same as Python."""
    frozen = [f'nnx.PathContains("{one.name}")' for one in branches if one.frozen]
    return f"nnx.All(nnx.Param, nnx.Not(nnx.Any({', '.join(frozen)})))" if frozen else "nnx.Param"


def update_rule(branches: Sequence[Branch]) -> str:
    """Return Python that makes the rule by which the parameters of several optimizers follow their gradients."""
    rules = (
        f'"{one.name}": config.{one.optimizer}.transform(config.train.steps)'
        for one in branches
        if one.optimizer
    )
    targets = {one.name: one.follows for one in branches if one.follows}
    following = f", {targets!r}, config.train.target_rate" if targets else ""
    return f"by_branch({{{', '.join(rules)}}}{following})"


def default_config(sections: Mapping[str, Any], settings: Mapping[str, Any]) -> SimpleNamespace:
    """Return what `Models` reads of a Config as it is by default.

    sections: name -> sizes. settings: of the section `train`, those of the recipe.
    """
    return SimpleNamespace(**sections, train=SimpleNamespace(**settings))
