"""No emitted file imports or names what it does not use: of all families, and classes of one's own."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest
from own.test_projects import HERE, PROJECTS, flags_of
from recipes.test_brought import BROUGHT

from redco_new.generate.files import print_files, project_context
from redco_new.generate.read import plan_request, read_model
from redco_new.models.families import FAMILIES
from redco_new.own.recipes import RECIPES
from redco_new.render.template import open_template
from redco_new.request import Request

UNUSED = "F401,F811,F821,F822,F841"  # imports, names and variables, of pyflakes


@pytest.fixture(scope="module")
def plan():
    """The plan of one model: what the tables of sharding.py hold is of no matter here."""
    with open_template() as template:
        return plan_request(Request.from_flags("a", "gpt-j", shards="2"), template)


@pytest.fixture
def lint(plan, tmp_path):
    """lint(request, stateful): what ruff has to say of the Python of a project."""

    def lint(request, stateful):
        with open_template() as template:
            model = read_model(request, template)
            # The plan is that of another model, which no preset of this one fits.
            tiny = model.tiny if request.own else None
            model = replace(model, stateful=stateful, tiny=tiny)
            context = project_context(model, SimpleNamespace(stateful=stateful), plan)
            files = print_files(template, model, context)
        for path, text in files.items():
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


@pytest.mark.parametrize("name", BROUGHT)
def test_of_a_recipe_with_its_model(lint, name):
    assert lint(Request.from_flags("a-project", recipe=name, shards="2"), stateful=False) == ""


def test_all_recipes_have_a_class_here():
    assert {recipe for _, recipe, _ in PROJECTS.values()} == RECIPES.keys()


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("name", PROJECTS)
def test_of_a_class(lint, name, stateful, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    shutil.copy(HERE / PROJECTS[name][0].partition(":")[0], folder)
    flags = flags_of(folder, name)
    request = Request.from_flags("a-project", folder=folder / "own", **flags)
    with jax.numpy_rank_promotion("allow"):  # users' classes promote
        assert lint(request, stateful) == ""
