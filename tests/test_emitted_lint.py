"""No emitted file imports or names what it does not use: of all families, and classes of one's own."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from own.test_projects import HERE, PROJECTS

from redco_new import assets, design, facts
from redco_new.render import render
from redco_new.request import Request
from redco_new.sources.families import FAMILIES
from redco_new.sources.own.recipes import RECIPES

TEMPLATE = assets.templates()
UNUSED = "F401,F811,F821,F822,F841"  # imports, names and variables, of pyflakes


@pytest.fixture(scope="module")
def plan():
    """The plan of one model: what the tables of sharding.py hold is of no matter here."""
    return design.plan_for(Request.from_flags("a", "gpt-j", shards="2"), TEMPLATE)


@pytest.fixture
def lint(plan, tmp_path, monkeypatch):
    """lint(request, stateful): what ruff has to say of the Python of a project."""
    monkeypatch.setattr(facts, "plan_program", lambda request, program: plan)

    def lint(request, stateful):
        known = facts.gather(
            design.find_design(request, TEMPLATE), SimpleNamespace(stateful=stateful)
        )
        for path, text in render(known | {"stateful": stateful}, TEMPLATE).items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        ruff = [str(Path(sys.executable).parent / "ruff"), "check", "--isolated", "--quiet"]
        command = [*ruff, "--select", UNUSED, "--output-format", "concise", "."]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout

    return lint


@pytest.mark.parametrize("name", FAMILIES)
def test_of_a_family(lint, name):
    assert lint(Request.from_flags("a-project", name, shards="2"), stateful=False) == ""


@pytest.mark.parametrize("options", [{"zero": 1}, {"sequence_parallel": True}])
def test_of_a_family_with_all_tables(lint, options):
    request = Request.from_flags("a-project", "gpt-j", mesh="data=2,model=2", **options)
    assert lint(request, stateful=True) == ""


def test_all_recipes_have_a_class_here():
    assert {recipe for _, recipe, _ in PROJECTS.values()} == RECIPES.keys()


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("name", PROJECTS)
def test_of_a_class(lint, name, stateful, tmp_path_factory):
    model, recipe, config = PROJECTS[name]
    folder = tmp_path_factory.mktemp("own")
    shutil.copy(HERE / model.partition(":")[0], folder)
    (folder / "own.toml").write_text(config)
    settings = {"recipe": recipe, "config": str(folder / "own.toml"), "folder": folder / "own"}
    request = Request.from_flags("a-project", str(folder / model), **settings)
    assert lint(request, stateful) == ""
