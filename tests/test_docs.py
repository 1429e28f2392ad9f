"""Links, anchors and commands of each page of the documentation are there."""

import re

import pytest
import typer
from pages import ELSEWHERE, PAGES, SITE, anchors, commands, links
from generated import ROOT
from docs import reference
from docs.site import site_links

from redco_new import cli
from redco_new.cli import redco_app
from redco_new.cli.new import new_app
from redco_new.models.recipes import RECIPES

EMITTED = ROOT / "templates/project/{{ package }}"
OURS = ("redco", "redco-new")
RECIPE = ROOT / "templates/recipes"
PROGRAMS = {"train", "evaluate", "predict", "export", "prepare", "runtime.cluster.launch"}
TYPES = "int|float|bool|str|tuple|Literal"
NOW = [page for page in PAGES if page.name != "CHANGELOG.md"]  # which has commands of then


def name(page):
    return str(page.relative_to(ROOT))


def options(command):
    """The options of a command of ours, with what leads to it: `redco update`."""
    app = {"redco": redco_app, "redco-new": new_app}[command[0]]
    parsed = typer.main.get_command(app)
    if command[0] == "redco":
        assert command[1] in parsed.commands or command[1].startswith("--"), command
        parsed = parsed.commands.get(command[1], parsed)
    return {option for p in parsed.params for option in (*p.opts, *p.secondary_opts)} | {"--help"}


@pytest.fixture(scope="module")
def flags():
    """The flags that programs of projects have: fields of config.py, and what the programs add."""
    files = [EMITTED / "config.py.jinja", *RECIPE.glob("shared/data/*.jinja")]
    files += [*RECIPE.rglob("*.jinja"), *(ROOT / "templates/models").glob("*/*.jinja")]
    files.append(ROOT / "runtime/redco_runtime/step/sweep.py")  # a section of config.py
    fields = {x for f in files for x in re.findall(rf"\b(\w+): (?:{TYPES})\b", f.read_text())}
    fields |= {setting.name for recipe in RECIPES.values() for setting in recipe.settings}
    programs = [*EMITTED.glob("*.jinja"), *(ROOT / "runtime").rglob("*.py")]
    added = {x for f in programs for x in re.findall(r'"(--[\w-]+)"', f.read_text())}
    return added | {"--" + field.replace("_", "-") for field in fields}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_what_is_there(page):
    for path, anchor in links(page):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{path} is not there"
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}: {anchors(target)}"


@pytest.mark.parametrize("page", NOW, ids=name)
def test_commands_have_the_options_that_a_page_says(page, flags):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for command in commands(page.read_text()):
        asked = {word.partition("=")[0] for word in command if word.startswith("--")} - {"--"}
        if command[0] in OURS:
            assert asked <= options(command), command
        elif command[0] == "make":
            assert command[1] in targets, command
        elif command[:2] == ["python", "-m"] and command[2].startswith("my_"):
            program = command[2].partition(".")[2]
            assert program in PROGRAMS, command
            prefixed = {flag for flag in asked if re.match("--(teacher|critic-optimizer)-", flag)}
            assert asked - prefixed <= flags, command


def entries(nav):
    """The pages of a nav of MkDocs, in order."""
    for item in nav:
        values = item.values() if isinstance(item, dict) else [item]
        for value in values:
            yield from entries(value) if isinstance(value, list) else [value]


def test_each_page_is_on_the_site_once():
    written = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(entries(SITE["nav"])) == sorted([*written, *ELSEWHERE])


def test_links_that_leave_the_pages_are_the_sites():
    text = "[a](../../tests/tools/tables/large.md#b) [c](mesh.md) [d.py](../../tests/d.py) [e](https://e)"
    there = {"results/large.md": ["tests/tools/tables/large.md"]}
    assert site_links(text, "how-to/fit.md", "docs/how-to/fit.md", there) == (
        "[a](../results/large.md#b) [c](mesh.md) d.py (`tests/d.py`) [e](https://e)"
    )
    assert (
        site_links("[f](examples)", "results/c.md", "tests/tools/c.md", {})
        == "f (`tests/tools/examples`)"
    )


def test_redco_shows_them(capsys):
    assert cli.run(redco_app, "redco", ["docs"]) == 0
    listed = [line.split("  ")[0].strip() for line in capsys.readouterr().out.splitlines()]
    assert sorted(f"{page}.md" for page in listed) == sorted({*entries(SITE["nav"])} - {*ELSEWHERE})
    assert cli.run(redco_app, "redco", ["docs", "recipes/sft"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/recipes/sft.md").read_text()
    assert cli.run(redco_app, "redco", ["docs", "recipes/none"]) == 2
    assert "there is no page 'recipes/none'; `redco docs` lists them" in capsys.readouterr().err


@pytest.mark.parametrize("page", reference.PAGES)
def test_pages_that_are_of_the_code_are_as_it_is(page):
    text = (ROOT / "docs" / page).read_text()
    assert text == reference.written(page, reference.PAGES[page]), "make reference"


@pytest.mark.slow
def test_the_page_of_families_is_as_they_are():
    (page,) = reference.SLOW
    assert (ROOT / "docs" / page).read_text() == reference.written(page, reference.SLOW[page])


def test_a_page_says_what_each_key_of_json_is():
    text = (ROOT / "docs/reference/json.md").read_text()
    assert not re.findall(r"^\| `\w+` \| .* \| +\|$", text, re.MULTILINE)
