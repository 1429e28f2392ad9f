"""Templates + facts -> {path: text}: what is printed, and what is refused."""

import errno

import pytest
import samples

from redco_new.errors import RedcoError
from redco_new.render import assets
from redco_new.render.owners import GENERATED, HEADERS, YOURS


def refused(match):
    return pytest.raises(RedcoError, match=match)


@pytest.fixture
def template(tmp_path):
    return samples.write_template(tmp_path / "template")


def test_paths_and_text(template):
    files = samples.render(template)
    assert list(files) == samples.PATHS
    assert files["README.md"] == "# my-project\n\nSplit over 4 devices.\n"
    assert files["my_project/train.py"] == (
        f'{HEADERS[YOURS]}\nfrom my_project import model\n\nx = ["grüß Gott", model]\n'
    )
    assert (
        files["launch/hosts.sh"]
        == f"#!/bin/sh\n{HEADERS[GENERATED]}\npython -m my_project.runtime.base.messages my_project\n"
    )
    assert files["launch/jobset.yaml"] == f"{HEADERS[GENERATED]}\nname: my-project\n"
    assert files["my_project/__init__.py"] == f"{HEADERS[GENERATED]}\n"


def test_verbatim_files_keep_their_text(template):
    files = samples.render(template)
    model = samples.VERBATIM["my_project/model.py"]
    assert files["my_project/model.py"] == f"{HEADERS[YOURS]}\n{model}"
    init = assets.runtime() / "redco_runtime" / "__init__.py"
    assert files["my_project/runtime/__init__.py"] == init.read_text()


def test_lines_end_with_lf(template):
    (template / "project" / "README.md.jinja").write_bytes(b"a\r\nb")
    (template / "project" / "launch" / "notes.md").write_bytes(b"a\r\nb\r\n")
    files = samples.render(template)
    assert files["README.md"] == files["launch/notes.md"] == "a\nb\n"


def test_undefined_variable(template):
    samples.with_file(template, "README.md.jinja", "# {{ request.name }}\n{{ projcet }}\n")
    with refused(
        r"project/README\.md\.jinja, line 2: 'projcet' is undefined; mend the folder that --template names"
    ):
        samples.render(template)


def test_syntax_error_of_a_template(template):
    samples.with_file(template, "README.md.jinja", "a\n{% if %}\n")
    with refused(r"project/README\.md\.jinja, line 2: Expected an expression"):
        samples.render(template)


def test_python_that_is_none(template):
    samples.with_file(template, "launch/xmanager.py.jinja", "def {{ package }}(:\n")
    with refused(r"launch/xmanager\.py: rendered, it is not Python: cannot parse"):
        samples.render(template)


def test_bytes_that_are_no_text(template):
    (template / "project" / "launch" / "logo.png").write_bytes(b"\x89PNG\xff")
    with refused("'utf-8' codec can't decode"):
        samples.render(template)


def test_file_that_nobody_owns(template):
    samples.with_file(template, "Containerfile", "FROM scratch\n")
    with refused("Containerfile: the template writes a file that nobody owns"):
        samples.render(template)


def test_file_that_is_also_verbatim(template):
    samples.with_file(template, "{{ package }}/model.py.jinja", "x = 1\n")
    with refused(r"my_project/model\.py: the template writes a file that redco copies as it is"):
        samples.render(template)


def test_full_scratch_disk(template, monkeypatch):
    def no_space(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("copier.run_copy", no_space)
    with refused("the template cannot be rendered there: No space left on device; mend that, or"):
        samples.render(template)
