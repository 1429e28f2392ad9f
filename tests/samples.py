"""A small template and small facts, for tests of what is done with any template and any facts."""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import jax

from redco_new.generate import files, plan as plans, read
from redco_new.generate.first_runs import FirstRuns
from redco_new.generate.project_model import ProjectModel
from redco_new.generate.design import Design
from redco_new.generate.files import print_files
from redco_new.render import assets
from redco_new.render.carried import carried
from redco_new.render.owners import YOURS, with_header
from redco_new.render.template import open_template
from redco_new.render.values import checked
from redco_new.request import Request
from redco_plan import plan_sharding

REQUEST = Request.from_flags("my-project", "gpt-j", shards="4")

FILES = {
    "redco.toml.jinja": (assets.templates() / "project" / "redco.toml.jinja").read_text(),
    "README.md.jinja": "# {{ request.name }}\n\nSplit over {{ request.mesh.model }} devices.\n\n\n",
    "launch/hosts.sh.jinja": "#!/bin/sh\npython -m redco_runtime.base.messages {{ package }}\n",
    "launch/jobset.yaml.jinja": "name: {{ request.name }}\n",
    "{{ package }}/train.py.jinja": "import jax\nfrom {{package}} import config, model\nx = [ '{{ greeting }}', model ]",
    "{{ package }}/__init__.py": "",
}

VERBATIM = {"my_project/model.py": '"""A model."""\n\nSIZE = 1\n'}
RUNTIME = [
    *carried({"run.sh": "python -m redco_runtime.base.messages"}, "my_project")
]  # which launch/hosts.sh names

# Every file of a project made of these, without .redco/.
PATHS = sorted(
    {p.replace("{{ package }}", "my_project").removesuffix(".jinja") for p in FILES}
    | VERBATIM.keys()
    | set(RUNTIME)
)


def forward(params: dict, batch: dict) -> jax.Array:
    """A table of 1600 words, an MLP between 512 features, and a head over the words."""
    x = params["embed"]["table"][batch["ids"]] * params["scale"]
    x = x + jax.nn.relu(x @ params["up"]) @ params["down"]
    return x @ params["head"]


def shapes(**sizes: tuple[int, ...]) -> dict[str, jax.ShapeDtypeStruct]:
    return {name: jax.ShapeDtypeStruct(shape, "float32") for name, shape in sizes.items()}


PLAN = plan_sharding(
    forward,
    {
        "embed": shapes(table=(1600, 512)),
        **shapes(up=(512, 2048), down=(2048, 512), scale=(), head=(512, 1600)),
    },
    {"ids": jax.ShapeDtypeStruct((8, 16), "int32")},
    {"fsdp": 2, "model": 4},
)


def write_template(folder: Path, files: dict[str, str] = FILES) -> Path:
    """A template with redco's own copier.yml and `files` as its project/."""
    folder.mkdir()
    shutil.copy(assets.templates() / "copier.yml", folder)
    for path, text in files.items():
        file = folder / "project" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def with_file(template: Path, path: str, text: str) -> Path:
    """`template`, after a file of its project/ was written."""
    (template / "project" / path).write_text(text, encoding="utf-8")
    return template


@dataclass(frozen=True)
class Layout:
    """What redco-new says of a first run."""

    first: FirstRuns = field(default_factory=lambda: FirstRuns.of({"data": -1, "model": 4}))


@dataclass(frozen=True)
class Recipe:
    """What redco-new says of what is trained."""

    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Context:
    """What FILES print."""

    package: str
    request: Annotated[Request, checked("redco.toml")]
    model: ProjectModel
    greeting: str = "grüß Gott"
    layout: Layout = field(default_factory=Layout)
    recipe: Recipe = field(default_factory=Recipe)
    notes: tuple[str, ...] = ()


def context(request: Request = REQUEST) -> Context:
    return Context(request.package, request, ProjectModel("GPT-J", "GPTJ", "GPTJConfig"))


def design(request: Request = REQUEST) -> Design:
    """A model without a program, whose files are VERBATIM."""
    files = {path.replace("my_project", request.package): VERBATIM[path] for path in VERBATIM}
    files = {path: with_header(path, text, YOURS) for path, text in files.items()}
    return Design(request, None, None, files, loss=lambda changes: None)


def render(template: Path) -> dict[str, str]:
    """The files of a project that a template makes of these."""
    with open_template(template) as staged:
        return print_files(staged, design(), context())


def install_design(monkeypatch, plan=None) -> None:
    """Put these, and `plan`, in the place of what redco works out from a model."""
    monkeypatch.setattr(
        read, "read_model", lambda request, template, progress=None: design(request)
    )
    monkeypatch.setattr(read, "plan_request", lambda request, template, note: plan)
    monkeypatch.setattr(plans, "plan_program", lambda request, program: plan)
    monkeypatch.setattr(
        files, "project_context", lambda design, program, plan: context(design.request)
    )


def tree(root: Path) -> dict[str, bytes | None]:
    """All that lies under `root`: path -> bytes, those of a link's target, None for a folder."""
    return {p.relative_to(root).as_posix(): _content(p) for p in sorted(root.rglob("*"))}


def _content(path: Path) -> bytes | None:
    if path.is_symlink():
        return os.readlink(path).encode()
    return None if path.is_dir() else path.read_bytes()
