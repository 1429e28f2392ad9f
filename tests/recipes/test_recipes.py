"""What is said of the recipes, in docs/recipes and by `redco recipes`, is what they are."""

import json
import re
import shlex
import statistics
import tomllib

import pytest
import typer
from generated import ROOT, shell_commands
from recipes import measure, rates, table

from redco_new import cli
from redco_new.cli.new import new_app
from redco_new.models.recipes import RECIPES
from redco_new.render import assets

# Lines of a pipeline.py; those of Redco's paper have 100 to 200, and ask no rows of a user for samples.
LONGEST, MEDIAN = 224, 129


@pytest.fixture(scope="module")
def rows():
    return table.rows()


def test_the_table_of_recipes(rows):
    assert table.current_table() == table.table(rows), "python tests/recipes/table.py"


def test_the_table_of_rates():
    assert rates.current_table() == rates.table(), "python tests/recipes/rates.py"


def test_the_settings_of_the_page_are_settings():
    config = (ROOT / "templates/project/{{ package }}/config.py.jinja").read_text()
    (text,) = re.findall("```toml\n(.*?)```", rates.PAGE.read_text(), re.DOTALL)
    for section, values in tomllib.loads(text).items():
        fields = config.partition(f"class {section.capitalize()}:")[2].partition("\nclass ")[0]
        for name in values:
            field = {"schedule": "learning_rate_decay"}.get(name, name)
            assert re.search(rf"^    {field}: ", fields, re.MULTILINE), name


def test_the_list_for_programs(rows, monkeypatch, capsys):
    monkeypatch.setattr("redco_new.inspect.recipes.list_recipes", lambda template: rows)
    assert cli.run(cli.redco_app, "redco", ["recipes", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in listed] == [*RECIPES]
    for row in listed:
        assert row["create"][:3] == [f"my-{row['name']}", "--recipe", row["name"]]
        assert row["figure"].keys() in ({"name", "least"}, {"name", "most"})
    assert cli.run(cli.redco_app, "redco", ["recipes"]) == 0
    assert all(f" {row['name']} " in capsys.readouterr().out for row in rows[:1])


def test_pipelines_are_short(rows):
    lines = [row["lines"] for row in rows]
    assert max(lines) <= LONGEST and statistics.median(lines) <= MEDIAN


def test_each_recipe_reaches_its_figure():
    """As measured by `make table NAME=recipes`, with three seeds."""
    results = json.loads(measure.RESULTS.read_text())
    assert results.keys() <= RECIPES.keys()
    assert measure.PAGE.read_text() == measure.page(results)


def test_a_figure_that_is_not_reached_is_an_error():
    with pytest.raises(ValueError, match="image: 0.2 is not accuracy >= 0.97"):
        measure.line(
            "image", {str(i): {"figure": x, "seconds": 1.0} for i, x in enumerate((0.98, 0.2))}
        )


@pytest.mark.parametrize("name", RECIPES)
def test_each_recipe_has_a_page(name):
    text = (ROOT / f"docs/recipes/{name}.md").read_text()
    assert f"redco-new {' '.join(RECIPES[name].create)}" in text
    for heading in ("## The three functions", "## Your data", "## How it scales"):
        assert heading in text


FIXED = {
    "preset",
    "workdir",
    "virtual_devices",
    "prompt",
    "picture",
    "mesh",
    "init",
}  # flags that are no settings


@pytest.mark.parametrize("name", RECIPES)
def test_the_commands_of_a_page_parse(name):
    """Those of redco-new as it reads them; flags of a project are settings that it has."""
    folder = assets.templates() / "recipes" / (RECIPES[name].folder or name)
    texts = [*folder.glob("*.py*"), *assets.templates().glob("project/*/config.py.jinja")]
    texts += [assets.templates() / f"recipes/shared/data/{RECIPES[name].data}.jinja"]
    fields = {x for path in texts for x in re.findall(r"^    (\w+): ", path.read_text(), re.M)}
    fields |= RECIPES[name].defaults.keys()
    optimizers = {branch.optimizer for branch in RECIPES[name].branches}
    fields |= {f"{section}_{x}" for section in optimizers for x in fields}
    commands = shell_commands((ROOT / f"docs/recipes/{name}.md").read_text())
    create, *others = (shlex.split(c) for c in commands if not c.startswith(("cd ", "pip ")))
    values = typer.main.get_command(new_app).make_context("redco-new", create[1:]).params
    assert (values["name"], values["recipe"]) == (f"my-{name}", name)
    assert len(others) >= 2
    for command in others:
        flags = {x[2:].replace("-", "_") for x in command if x.startswith("--")}
        assert command[:2] == ["python", "-m"] and flags <= fields | FIXED, command
