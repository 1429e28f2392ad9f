"""The project of each recipe, as `redco recipes` creates it, passes its own tests."""

import re
import sys

import pytest
from generated import EXACT, run

from redco_new.models.recipes import RECIPES
from redco_new.project.create import create_project
from redco_new.request import Request

# A minute and more to compile, or with the train.py and steps.py of another one, or of a golden.
LONG = {"caption", "contrastive", "mlm", "seq2seq", "text-to-image"}
LONG |= {"classify-tokens", "dp-sgd", "lm", "preference", "sft"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=pytest.mark.long if x in LONG else pytest.mark.slow) for x in RECIPES],
)
def test_a_resumed_run_of_it_equals_a_straight_one(name, tmp_path):
    """The one of its own tests that runs its train.py."""
    project, *flags = RECIPES[name].create
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    request = Request.from_flags(project, given.get("--model"), recipe=given["--recipe"])
    folder = create_project(request, tmp_path)
    code, out, err = run(f"{sys.executable} -m pytest -q -k resumed", folder)
    assert code == 0 and re.search(r"^1 passed", out, re.MULTILINE), out + err


@pytest.mark.long
@pytest.mark.parametrize("name", RECIPES)
def test_its_own_tests_pass(name, tmp_path):
    """On virtual devices: sharded equals unsharded, resumed equals undisturbed, two processes equal one."""
    create = RECIPES[name].create
    code, out, err = run(f"redco-new {' '.join(create)} --mesh data=2,model=2", tmp_path)
    assert code == 0, err
    package = tmp_path / create[0] / create[0].replace("-", "_")
    named = "`evaluate.py`" in (tmp_path / create[0] / "README.md").read_text()
    assert named == (package / "evaluate.py").is_file()
    code, out, err = run(f"{sys.executable} -m pytest -q", tmp_path / create[0], **EXACT)
    assert code == 0 and re.search(r"^[3-9] passed", out, re.MULTILINE), out + err
