"""A small template and small facts, for tests of what is done with any template and any facts."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import jax

import redco_new
from redco_new import assets
from redco_new.request import Request
from redco_new.sharding import plan_sharding

REQUEST = Request.from_flags("my-project", "gpt-j", shards="4")

FILES = {
    "redco.toml.jinja": (assets.templates() / "project" / "redco.toml.jinja").read_text(),
    "README.md.jinja": "# {{ project }}\n\nSplit over {{ mesh.model }} devices.\n\n\n",
    "launch/hosts.sh.jinja": "#!/bin/sh\necho {{ package }}\n",
    "launch/jobset.yaml.jinja": "name: {{ project }}\n",
    "{{ package }}/train.py.jinja": "import {{package}}.model\nx = [ '{{ greeting }}' ]",
    "{{ package }}/__init__.py": "",
}

VERBATIM = {
    "my_project/model.py": '"""A model."""\n\nSIZE = 1\n',
    "redco_runtime/__init__.py": '"""The runtime."""\n',
}

# Every file of a project made of these, without .redco/.
PATHS = sorted(
    {p.replace("{{ package }}", "my_project").removesuffix(".jinja") for p in FILES}
    | VERBATIM.keys()
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


def facts(request: Request = REQUEST) -> dict:
    """The facts that FILES print."""
    return {
        "project": request.name,
        "package": request.package,
        "model": request.model,
        "mesh": dict(request.mesh),
        "recipe": request.recipe,
        "own": "",
        "dtype": request.dtype,
        "request_toml": request.to_toml(),
        "greeting": "grüß Gott",
        "verbatim": {p.replace("my_project", request.package): VERBATIM[p] for p in VERBATIM},
    }


def install_facts(monkeypatch, plan=None) -> None:
    """Put small facts, and `plan`, in the place of those that redco works out from a model."""
    fakes = {
        "facts": SimpleNamespace(build=lambda request, template: (facts(request), None)),
        "design": SimpleNamespace(plan_for=lambda request, template: plan),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(redco_new, name, fake, raising=False)


def tree(root: Path) -> dict[str, bytes | None]:
    """All that lies under `root`: path -> bytes, those of a link's target, None for a folder."""
    return {p.relative_to(root).as_posix(): _content(p) for p in sorted(root.rglob("*"))}


def _content(path: Path) -> bytes | None:
    if path.is_symlink():
        return os.readlink(path).encode()
    return None if path.is_dir() else path.read_bytes()
