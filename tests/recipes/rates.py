"""The table of rates in docs/how-to/coming-from.md, from what the recipes say of them.

python tests/recipes/rates.py   rewrites it
"""

from pathlib import Path

from redco_new.models.recipes import RECIPES

PAGE = Path(__file__).parents[2] / "docs/how-to/coming-from.md"
HEAD = "| recipe | rate | whose | with `--lora` | whose |\n|---|---|---|---|---|\n"


def table() -> str:
    """Return the table in Markdown: a row for each recipe that trains a family."""
    rows = [
        (
            f"`{name}`",
            *(x for one in (recipe.rate, recipe.adapter_rate) for x in (one.python, one.reason)),
        )
        for name, recipe in RECIPES.items()
        if isinstance(recipe.model, str)
    ]
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def current_table() -> str:
    """Return the table of the page as it is. Raises ValueError where there is none."""
    text = PAGE.read_text()
    return text[text.index(HEAD) :].partition("\n\n")[0] + "\n"


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().replace(current_table(), table()))
