"""redco's own templates, rendered with real facts, for several requests."""

import ast
import dataclasses
import difflib
import inspect
import re
import tomllib
from fnmatch import fnmatchcase

import black
import jinja2.meta
import jinja2.nodes
import pytest
import yaml

from redco_new.render import assets, python, template
from generated import texts

from redco_new.generate import context
from redco_new.models.families import FAMILIES
from redco_new.render.owners import HEADERS, OWNERS, in_runtime, owner
from redco_new.render.template import open_template
from redco_new.request import Request

TEMPLATE = assets.templates()
OF_OWN_CLASSES = "{package}/formats.py"
REQUESTS = {
    "one-shard": {"shards": "1"},
    "my-project": {"shards": "4"},
    "Named_Like_This": {"mesh": "data=2,fsdp=2,model=8", "dtype": "float32"},
}


@pytest.fixture(scope="module", params=REQUESTS)
def rendered(request):
    """(request, files)."""
    one = Request.from_flags(request.param, "gpt-j", **REQUESTS[request.param])
    return one, texts(one)[0]


def test_python_is_formatted_and_compiles(rendered):
    """Of the runtime, which is copied as it is, `make lint` says so."""
    for path, text in rendered[1].items():
        if path.endswith(".py") and not in_runtime(path):
            mode = black.Mode(line_length=100, target_versions={black.TargetVersion.PY311})
            assert black.format_str(text, mode=mode) == text, path
            compile(text, path, "exec")


@pytest.mark.parametrize("family", ["gpt-j", "mistral", "t5"])
def test_templates_print_the_layout_of_black(family, monkeypatch):
    """What black changes it reads twice, which takes redco-new as much time again.

    Not where a tokenizer stands: its name may be longer than its line has room for.
    """
    changed = []

    def format_python(path, text):
        text = re.sub('tokenizer: str = "[^"]*"', 'tokenizer: str = "bytes"', text)
        formatted = python.format_python(path, text)
        lines = difflib.unified_diff(text.splitlines(), formatted.splitlines(), path, "black")
        changed.extend(lines)
        return formatted

    monkeypatch.setattr(template, "format_python", format_python)
    texts(Request.from_flags("my-project", family, shards="4"))
    assert not changed, "\n".join(["print in the template what black makes of it:", *changed])


def test_text_is_clean(rendered):
    for path, text in rendered[1].items():
        assert "\r" not in text, path
        assert not text or text.endswith("\n") and not text.endswith("\n\n"), path
        assert not re.search(r"[ \t]+$", text, re.MULTILINE), f"{path}: a space at a line's end"
        assert "{{" not in text or path.endswith(".py"), f"{path}: Jinja's braces"


def test_headers(rendered):
    request, files = rendered
    for path, text in files.items():
        head = "\n".join(text.splitlines()[:2])
        named = [name for name, header in HEADERS.items() if header in head]
        bare = path.endswith((".md", ".json", "ignore", ".gitattributes", "Dockerfile"))
        bare |= in_runtime(path)
        assert named == ([] if bare else [owner(path, request.package)]), path


def test_every_owner_has_files(rendered):
    request, files = rendered
    others = (
        OF_OWN_CLASSES.format(package=request.package),
        "redco_runtime/*",
        "LICENSE",
    )  # where they are
    for pattern, _ in OWNERS:
        pattern = pattern.format(package=request.package)
        has_files = any(fnmatchcase(path, pattern) for path in files)
        assert has_files == (pattern not in others), f"nothing is called {pattern}"


def test_request_is_given_back(rendered):
    request, files = rendered
    assert Request.from_toml(files["redco.toml"]) == request


def bounds(requirements: list[str]) -> dict[str, str]:
    return dict(re.fullmatch(r"([a-z-]+)(.*)", line).groups() for line in requirements)


def test_pyproject(rendered):
    request, files = rendered
    table = tomllib.loads(files["pyproject.toml"])
    project = table["project"]
    assert project["name"] == request.name
    packages = table["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert packages == [request.package]
    mine = tomllib.loads((assets.CHECKOUT / "pyproject.toml").read_text())["project"]
    known = bounds([*mine["dependencies"], *mine["optional-dependencies"]["test"]])
    theirs = bounds(project["dependencies"])
    assert theirs.items() <= known.items(), "the bounds are those that this repository tests with"
    assert project["requires-python"] == mine["requires-python"]


def test_every_fact_is_printed():
    """Each field of the dataclasses that templates see is read by one of them."""
    environment = jinja2.Environment()
    reads = set()
    # The others than project with the context of config.py.
    files = ("project/**/*", "recipes/shared/data/*", "*/shared/kinds_of_parameters")
    for path in (x for file in files for x in TEMPLATE.glob(f"{file}.jinja")):
        source = path.relative_to(TEMPLATE).as_posix() + path.read_text()
        tree = environment.parse(source)
        reads |= {node.attr for node in tree.find_all(jinja2.nodes.Getattr)}
        reads |= jinja2.meta.find_undeclared_variables(tree)
    classes = (
        context.ProjectContext,
        context.ProjectModel,
        context.ProjectRecipe,
        context.ProjectLayout,
    )
    fields = {field.name for cls in classes for field in dataclasses.fields(cls)}
    tree = ast.parse(inspect.getsource(context.ProjectModel))  # what follows of its values
    reads |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert fields - reads == {"notes"}  # said by the command


def test_questions_have_help_and_defaults():
    config = yaml.safe_load((TEMPLATE / "copier.yml").read_text())
    questions = {key: value for key, value in config.items() if key[0] != "_"}
    assert list(questions) == ["redco_folder", "package"]
    assert all({"type", "help", "default"} <= question.keys() for question in questions.values())


def test_folders_of_the_template_are_what_the_generator_prints():
    with open_template() as template:
        folders = {path.name for path in (template.staged / "models").iterdir()} - {"shared"}
    assert folders == {family.template for family in FAMILIES.values()}
