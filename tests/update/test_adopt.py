"""`redco adopt`: a project that lost its records, or whose package was renamed, is looked after again."""

import re
import shutil
from dataclasses import replace

import pytest
from generated import ROOT, make, redco
from updates import base_of

from redco_new.project.archive import pack
from redco_new.project.manifest import read_manifest
from redco_new.project.records import BASE, digests
from redco_new.transaction import MANIFEST

GOLDEN = ROOT / "golden/gpt-j-4/project"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    return make(tmp_path_factory.mktemp("fresh"), mesh="data=2,model=4")


@pytest.fixture
def project(fresh, tmp_path):
    """A copy of a project under another name, without its records, edited."""
    root = shutil.copytree(fresh, tmp_path / "moved")
    shutil.rmtree(root / ".redco")
    model = root / "my_project/model.py"
    model.write_text(model.read_text().replace("normal(0.02)", "normal(0.03)"))
    return root


@pytest.mark.slow
def test_records_are_gone_and_redco_toml_too(project, fresh):
    (project / "redco.toml").unlink()
    (project / "launch/hosts.sh").unlink()
    code, out, err = redco(project, "adopt", ".")
    assert (code, err) == (0, "")
    assert out.startswith("Adopted my-project: gpt-j over data=2, model=4, ")
    assert "  my_project/model.py          yours in 2 lines\n" in out
    assert "  launch/hosts.sh              is not there\n" in out
    for path in (MANIFEST, "redco.toml", BASE):
        assert (project / path).read_bytes() == (fresh / path).read_bytes(), path
    assert "launch/hosts.sh              restored" in redco(project, "update", "--dry-run")[1]


@pytest.mark.slow
def test_the_package_is_renamed(fresh, tmp_path):
    root = shutil.copytree(fresh, tmp_path / "my-project")
    (root / "my_project").rename(root / "other")
    for file in [*root.glob("other/*.py"), *root.glob("tests/*.py"), root / "pyproject.toml"]:
        file.write_text(re.sub("my_project", "other", file.read_text()))
    code, out, err = redco(root, "adopt", ".")
    assert code == 0, err
    assert out.startswith("Adopted other: gpt-j over data=2, model=4, ")
    assert not any(path.startswith("my_project/") for path in base_of(root))
    assert 'name = "other"' in (root / "redco.toml").read_text()
    assert redco(root, "update", "--check") == (0, "", "")


def test_a_project_that_was_moved_needs_none_of_it(tmp_path):
    ignored = shutil.ignore_patterns("__pycache__", "*.md")
    root = shutil.copytree(GOLDEN, tmp_path / "moved", ignore=ignored)
    files = {p.relative_to(root).as_posix(): p for p in root.rglob("*") if p.is_file()}
    base = {path: file.read_bytes() for path, file in files.items() if path != MANIFEST}
    manifest = replace(read_manifest(root)[0], files=digests(base))
    (root / MANIFEST).write_text(manifest.to_json())
    (root / BASE).write_bytes(pack(base))
    code, out, err = redco(root, "adopt", ".")
    assert (code, out) == (2, "") and "redco looks after it already, wherever it lies" in err


def test_no_project(tmp_path):
    code, out, err = redco(tmp_path, "adopt", ".")
    assert (code, out) == (2, "") and "it has 0 folders with config.py" in err
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_the_runtime_of_another_redco(project):
    for file in (project / "my_project/runtime").rglob("*.py"):
        file.write_text("# former\n" + file.read_text())
    code, out, err = redco(project, "adopt", ".")
    assert (code, out) == (2, "") and "install the redco that made it" in err
    assert not (project / ".redco").exists()


def test_the_model_is_of_no_family(tmp_path):
    root = shutil.copytree(GOLDEN, tmp_path / "moved")
    shutil.rmtree(root / ".redco")
    (root / "redco.toml").unlink()
    (root / "my_project/model.py").write_text("class Mine:\n    pass\n")
    code, out, err = redco(root, "adopt", ".")
    assert (code, out) == (2, "") and "say it as redco-new would take it" in err
