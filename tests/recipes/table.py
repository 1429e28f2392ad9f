"""The table of recipes in docs/recipes/index.md, from what their files say of them.

python tests/recipes/table.py   rewrites it
"""

import re
from pathlib import Path

from redco_new.inspect.recipes import RecipeRow, list_recipes
from redco_new.models.recipes import RECIPES
from redco_new.render.template import open_template

PAGE = Path(__file__).parents[2] / "docs/recipes/index.md"
HEAD = "| `--recipe` | what it is | model | learns from | lines |\n|---|---|---|---|---|\n"


def table(rows: list[RecipeRow]) -> str:
    """Return the table in Markdown."""
    cells = (
        (f"`{row['name']}`", row["title"], row["takes"], row["source"], str(row["lines"]))
        for row in rows
    )
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in cells)


def current_table() -> str:
    """Return the table of the page as it is. Raises ValueError where there is none."""
    (rows,) = re.findall(rf"{re.escape(HEAD)}((?:\|.*\n)*)", PAGE.read_text())
    return HEAD + rows


def rows() -> list[RecipeRow]:
    with open_template() as template:
        return list(list_recipes(template))


def bound(name: str) -> str:
    """Return the figure of a recipe, for people: accuracy >= 0.9."""
    figure = RECIPES[name].figure
    sign = {"least": ">=", "most": "<="}
    return " ".join(f"{figure.name} {sign[key]} {value:g}" for key, value in figure.bound.items())


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().replace(current_table(), table(rows())))
