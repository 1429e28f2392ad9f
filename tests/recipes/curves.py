"""Draw the learning curves of a recipe, a line for each run: docs/recipes/RECIPE.png.

python -m recipes.curves ppo RUN ...   work folders of train, with as many evaluations as the curve is to have points
"""

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure

from recipes.table import bound
from redco_new.models.recipes import RECIPES

DOCS = Path(__file__).parents[2] / "docs/recipes"
SIZE = (5, 2.6)  # inches


def read_curve(run: Path, score: str) -> tuple[list[int], list[float]]:
    """Return the steps at which a run was evaluated, and its scores."""
    rows = [json.loads(line) for line in (run / "eval.jsonl").read_text().splitlines()]
    return [row["step"] for row in rows], [row[score] for row in rows]


def draw_curves(name: str, runs: list[Path], target: Path) -> None:
    """Write a PNG of the score of a recipe's figure over the steps, with the bound that is to be reached."""
    recipe = RECIPES[name]
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    for run in runs:
        axes.plot(*read_curve(run, recipe.figure.name), marker=".", label=f"seed {run.name}")
    (value,) = recipe.figure.bound.values()
    axes.axhline(value, color="gray", linestyle="--", linewidth=1, label=bound(name))
    axes.set_xlabel("step")
    axes.set_ylabel(recipe.figure.name)
    axes.legend(fontsize=8)
    figure.savefig(target, dpi=100)


if __name__ == "__main__":
    draw_curves(sys.argv[1], [Path(run) for run in sys.argv[2:]], DOCS / f"{sys.argv[1]}.png")
