"""The same request gives the same bytes, whoever makes it, and where.

Each project is made in this process and in two others, in which all that could matter is otherwise at
once: one a machine that has nothing set, the other a user who has set everything.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from samples import tree

from redco_new.render import assets
from redco_new.project.create import create_project
from redco_new.request import Request

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parent
NET = """
from flax import linen as nn


class Net(nn.Module):
    width: int
    title: str

    @nn.compact
    def __call__(self, x):
        return nn.Dense(8)(nn.relu(nn.Dense(self.width)(x)))
"""
CONFIG = """
[model]
width = 16
title = "größer als 数据"
[inputs]
x = {shape = ["B", 12]}
"""
BLACK = "[tool.black]\nline-length = 40\nskip-string-normalization = true\n"


def make(parent: Path, classes: str) -> None:
    """In the folder `parent`: two families, and an own class of a file that is called `classes`."""
    create_project(Request.from_flags("my-project", "gpt-j", shards="4", dtype="float32"), parent)
    create_project(
        Request.from_flags("experts", "mixtral", mesh="data=2,fsdp=2,model=4", zero=1), parent
    )
    (parent / "own.toml").write_text(CONFIG, encoding="utf-8")
    given = {"recipe": "classify", "config": str(parent / "own.toml"), "folder": parent / "own"}
    create_project(Request.from_flags("own", f"{classes}:Net", mesh="model=2", **given), parent)


class Backwards:
    """os.scandir, in another order than that of this machine's disk."""

    def __init__(self, path=".", real=os.scandir):
        with real(path) as entries:
            self.left = sorted(entries, key=lambda entry: entry.name)

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        return self.left.pop()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def main() -> None:
    real = os.listdir
    os.listdir = lambda *args: sorted(real(*args), reverse=True)
    os.scandir = Backwards
    make(Path(sys.argv[1]), sys.argv[2])
    assert "transformers" not in sys.modules, "it takes longer to import than all else together"


def with_class(parent: Path) -> Path:
    """A new folder with the file of the own class."""
    parent.mkdir(parents=True)
    (parent / "net.py").write_text(NET)
    return parent


def run(checkout: Path, parent: Path, classes: str | Path, folder: Path, umask: int, **env) -> dict:
    """What `make` makes with the redco of `checkout`, of that environment and in that folder."""
    path = os.pathsep.join(map(str, (checkout / "generator", checkout / "runtime", TESTS)))
    done = subprocess.run(
        [sys.executable, __file__, parent, classes],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path, **env},
        umask=umask,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return tree(parent)


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> dict:
    parent = with_class(tmp_path_factory.mktemp("here") / "a")
    make(parent, str(parent / "net.py"))
    return tree(parent)


def differing(one: dict, other: dict) -> list[str]:
    return sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))


def test_a_machine_that_has_nothing_set(here, tmp_path):
    """No HOME, a locale of ASCII; redco lies elsewhere, and the place has a long name."""
    checkout, parent = tmp_path / "redco", with_class(tmp_path / "größer als 数据" / ("x" * 200))
    for name in ("generator", "runtime/redco_runtime", "templates"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(assets.CHECKOUT / name, checkout / name, ignore=ignored)
    settings = {"PYTHONHASHSEED": "0", "LC_ALL": "C", "PYTHONUTF8": "0", "TZ": "Asia/Kolkata"}
    assert differing(here, run(checkout, parent, "net.py", parent, 0o077, **settings)) == []


def test_a_user_who_has_everything_set(here, tmp_path):
    """A home that nothing can be written to, settings of black and copier, eight devices."""
    parent = with_class(tmp_path / "my work")
    (tmp_path / "xdg").mkdir()
    for path in ("pyproject.toml", "xdg/black"):
        (tmp_path / path).write_text(BLACK)
    (tmp_path / "copier.yml").write_text("defaults: [")  # read, it would be an error
    settings = {
        "PYTHONHASHSEED": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "America/St_Johns",
        "HOME": "/dev/null",
        "HF_HOME": "/dev/null/hub",
        "XDG_CONFIG_HOME": str(tmp_path / "xdg"),
        "COPIER_SETTINGS_PATH": str(tmp_path / "copier.yml"),
        "COLUMNS": "20",
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_JIT": "1",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
    }
    made = run(assets.CHECKOUT, parent, parent / "net.py", tmp_path, 0, **settings)
    assert differing(here, made) == []


def test_no_file_tells_where_it_was_made(here):
    for path, content in here.items():
        for place in (assets.CHECKOUT, sys.prefix):
            assert str(place).encode() not in (content or b""), path


if __name__ == "__main__":
    main()
