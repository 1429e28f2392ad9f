"""A project requires the packages that it imports, and no other; redco-new says what needs which one."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest

from redco_new.errors import RedcoError
from redco_new.models.find import find_model
from redco_new.own.find import find_reference
from redco_new.own.requirements import find_requirements
from redco_new.render import assets
from redco_new.render.carried import carried

GOLDENS = sorted((assets.CHECKOUT / "golden").glob("*/project"))
NAMES = {"orbax": "orbax-checkpoint"}  # of modules that are called otherwise
CODE = ("my_project", "tests")  # launch/ runs elsewhere
# Image files, --log, BLEU, buckets and --format gguf say what they need; Orbax brings absl, tensorstore, etils, fsspec; transformers tokenizers.
OPTIONAL = {"PIL", "sacrebleu", "tensorboardX", "tensorstore", "tokenizers", "trackio", "wandb"}
OPTIONAL |= {"absl", "etils", "fsspec", "botocore", "gguf"}
OF_FAMILIES = "transformers"  # the runtime has it for what a family's weights.py asks


def imports(project):
    """The packages that the code of a project imports, in all its functions, and what that needs of the runtime."""
    found = set()
    own = [p.read_text() for name in CODE for p in (project / name).glob("*.py")]
    all_files = (project / name for name in (*CODE, "launch", "."))
    files = (p for folder in all_files for p in folder.glob("*") if p.is_file())
    texts = {p.relative_to(project).as_posix(): p.read_text() for p in files}
    of_runtime = carried(texts, "my_project").items()
    for text in (*own, *(text for path, text in of_runtime if path.endswith(".py"))):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module)
    found = {name.partition(".")[0] for name in found}
    return {NAMES.get(x, x).replace("_", "-") for x in found - sys.stdlib_module_names - OPTIONAL}


def requirements(pyproject):
    """name -> its bounds."""
    lines = tomllib.loads(pyproject.read_text())["project"]["dependencies"]
    return dict(re.fullmatch(r"([a-z0-9-]+)(.*)", line).groups() for line in lines)


@pytest.mark.parametrize("project", GOLDENS, ids=lambda path: path.parent.name)
def test_a_project_requires_what_it_imports(project):
    weights = project / "my_project" / "weights.py"
    family = weights.is_file() and "def hf_config(" in weights.read_text()
    unused = set() if family else {OF_FAMILIES}
    used = imports(project) - {"my-project", "redco-runtime", "net"} - unused
    assert requirements(project / "pyproject.toml").keys() == used


def test_redco_new_installs_beside_a_transformers_that_has_flax():
    assert requirements(assets.CHECKOUT / "pyproject.toml")[OF_FAMILIES] == ">=4.57"


@pytest.mark.parametrize("version", ["4.57.6", None])
def test_what_needs_transformers_5_says_so(version, tmp_path, monkeypatch):
    def installed(name):
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", installed)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    there = f"here is {version}" if version else "there is none here"
    for name in (str(tmp_path), "org/name"):
        with pytest.raises(RedcoError) as error:
            find_model(name, "", 1)
        assert str(error.value) == (
            f"--model: {name} is read by transformers 5 or newer, and {there}; "
            'pip install "transformers>=5", or give a class of your own, FILE.py:NAME'
        )


def test_a_class_of_a_package_requires_it_and_a_file_does_not(tmp_path):
    (tmp_path / "written.py").write_text("class Net: ...\n")
    classes = ("transformers:PretrainedConfig", "jax:Array", "written.py:Net", "json:JSONDecoder")
    found = find_requirements(find_reference("--model", x, tmp_path) for x in classes)
    assert found == ("jax<1", "transformers>=5,<6")


def test_a_project_of_an_own_class_is_made_without_transformers(tmp_path):
    """Where it cannot be imported, since nothing imports it."""
    (tmp_path / "net.py").write_text(
        "from flax import nnx\n\n\nclass Net(nnx.Module):\n"
        "    def __init__(self, *, rngs):\n        self.head = nnx.Linear(4, 3, rngs=rngs)\n\n"
        "    def __call__(self, x):\n        return self.head(x)\n"
    )
    (tmp_path / "net.toml").write_text('[inputs]\nx = {shape = ["B", 4]}\n')
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; sys.modules['transformers'] = None\n"
        "from redco_new.cli import new_main; new_main()"
    )
    flags = ["--model", "net.py:Net", "--config", "net.toml", "--recipe", "classify"]
    done = subprocess.run(
        [sys.executable, "-c", code, "my-project", *flags],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "transformers" not in (tmp_path / "my-project" / "pyproject.toml").read_text()
