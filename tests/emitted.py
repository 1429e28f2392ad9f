"""The boot and launch files of a generated project, without the rest, and commands run in it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from types import ModuleType

import jinja2

from redco_new.render.imports import drop_unused_imports
from redco_new.render.own_runtime import AT_HOME, with_own_runtime
from redco_new.request import Request

ROOT = Path(__file__).parents[1]
REQUEST = Request.from_flags("my-project", "gpt-j", shards="4")
FILES = (
    "{{ package }}/boot.py",
    "launch/hosts.sh",
    "launch/jobset.yaml",
    "launch/kubeflow.yaml",
    "launch/pbs.sh",
    "launch/ray.py",
    "launch/sky.yaml",
    "launch/slurm.sbatch",
    "launch/tpu-vm.sh",
    "launch/xmanager.py",
    "tests/test_boot.py",
)
LAUNCHERS = re.compile("REDCO_|SLURM_|PBS_|OMPI_|PMIX_|JOB_|TPU_|RANK$|WORLD_SIZE$|.*_proxy$")


def write_project(folder: Path) -> Path:
    """The rendered FILES and the runtime, in `folder`/my-project."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ROOT / "templates" / "project"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    project = folder / "my-project"
    for name in FILES:
        file = project / name.replace("{{ package }}", "my_project")
        file.parent.mkdir(parents=True, exist_ok=True)
        template = templates.get_template(f"{name}.jinja")
        text = template.render(
            package="my_project", request=REQUEST, model=SimpleNamespace(imported=False)
        )
        text = drop_unused_imports(text) if name.endswith(".py") else text
        file.write_text(with_own_runtime(name, text, "my_project"))
    shutil.copytree(ROOT / "runtime" / "redco_runtime", project / "my_project" / "runtime")
    return project


def clean_environ(project: Path, **variables: str) -> dict[str, str]:
    """This environment without any launcher's variables or proxies, and with `variables`."""
    env = {name: value for name, value in os.environ.items() if not LAUNCHERS.match(name)}
    return env | {"PYTHONPATH": str(project)} | variables


def run(project: Path, *command: str, **variables: str) -> tuple[int, str]:
    """(exit code, output and errors together) of a command in the project's folder."""
    process = subprocess.Popen(
        command,
        cwd=project,
        env=clean_environ(project, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        out, _ = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.terminate()  # hosts.sh stops what it started
        raise AssertionError(f"still running after 60 s: {process.communicate()[0]}") from None
    return process.returncode, out


def load_boot(project: Path) -> ModuleType:
    """The project's boot.py, as a module, over the runtime of this process."""
    path = project / "my_project" / "boot.py"
    text = path.read_text().replace("my_project.runtime", AT_HOME)
    module = ModuleType("emitted_boot")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        exec(compile(text, path, "exec"), vars(module))
    finally:
        del sys.modules[module.__name__]
    return module
