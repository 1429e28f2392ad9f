"""Templates + facts -> {path: text}: what is printed, what is refused, and that nothing else matters."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import samples

from redco_new.errors import RedcoError
from redco_new.owners import GENERATED, HEADERS, YOURS, owner
from redco_new.render import render


def refused(match):
    return pytest.raises(RedcoError, match=match)


@pytest.fixture
def template(tmp_path):
    return samples.write_template(tmp_path / "template")


def with_file(template: Path, path: str, text: str) -> Path:
    (template / "project" / path).write_text(text, encoding="utf-8")
    return template


def with_config(template: Path, text: str) -> Path:
    config = template / "copier.yml"
    config.write_text(config.read_text() + text, encoding="utf-8")
    return template


def test_paths_and_text(template):
    files = render(samples.facts(), template)
    assert list(files) == samples.PATHS
    assert files["README.md"] == "# my-project\n\nSplit over 4 devices.\n"
    assert files["my_project/train.py"] == (
        f'{HEADERS[YOURS]}\nimport my_project.model\n\nx = ["grüß Gott"]\n'
    )
    assert files["launch/hosts.sh"] == f"#!/bin/sh\n{HEADERS[GENERATED]}\necho my_project\n"
    assert files["launch/jobset.yaml"] == f"{HEADERS[GENERATED]}\nname: my-project\n"
    assert files["my_project/__init__.py"] == f"{HEADERS[GENERATED]}\n"


def test_verbatim_files_keep_their_text(template):
    files = render(samples.facts(), template)
    model = samples.VERBATIM["my_project/model.py"]
    assert files["my_project/model.py"] == f"{HEADERS[YOURS]}\n{model}"
    assert files["redco_runtime/__init__.py"] == samples.VERBATIM["redco_runtime/__init__.py"]


def test_lines_end_with_lf(template):
    (template / "project" / "README.md.jinja").write_bytes(b"a\r\nb")
    (template / "project" / "launch" / "notes.md").write_bytes(b"a\r\nb\r\n")
    files = render(samples.facts(), template)
    assert files["README.md"] == files["launch/notes.md"] == "a\nb\n"


SCRIPT = """
import json, pathlib, sys
sys.path[:0] = {path!r}
import samples
from redco_new.render import render
print(json.dumps(render(samples.facts(), pathlib.Path(sys.argv[1]))))
"""


def test_hash_seed_locale_folder_and_settings_change_nothing(template, tmp_path):
    settings = tmp_path / "settings.yml"
    settings.write_text("defaults: [")  # read, it would be an error
    texts = set()
    for seed, locale, folder, more in (
        ("1", "C", "a", {}),
        ("2", "C.UTF-8", "b", {"COPIER_SETTINGS_PATH": str(settings), "PYTHONUTF8": "0"}),
    ):
        (tmp_path / folder).mkdir()
        samples.write_template(tmp_path / folder / "template")
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(path=sys.path), f"{folder}/template"],
            env={**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale, **more},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout)
    assert len(texts) == 1


def test_undefined_variable(template):
    with_file(template, "README.md.jinja", "# {{ project }}\n{{ projcet }}\n")
    with refused(r"project/README\.md\.jinja, line 2: 'projcet' is undefined; mend the template"):
        render(samples.facts(), template)


def test_undefined_variable_whatever_the_fork_says(template):
    config = template / "copier.yml"
    config.write_text(config.read_text().replace("StrictUndefined", "Undefined"))
    with_file(template, "README.md.jinja", "{{ projcet }}")
    with refused("'projcet' is undefined"):
        render(samples.facts(), template)


def test_syntax_error_of_a_template(template):
    with_file(template, "README.md.jinja", "a\n{% if %}\n")
    with refused(r"project/README\.md\.jinja, line 2: Expected an expression"):
        render(samples.facts(), template)


def test_python_that_is_none(template):
    with_file(template, "launch/xmanager.py.jinja", "def {{ package }}(:\n")
    with refused(r"launch/xmanager\.py: rendered, it is not Python: cannot parse"):
        render(samples.facts(), template)


def test_bytes_that_are_no_text(template):
    (template / "project" / "launch" / "logo.png").write_bytes(b"\x89PNG\xff")
    with refused("'utf-8' codec can't decode"):
        render(samples.facts(), template)


def test_file_that_nobody_owns(template):
    with_file(template, "Dockerfile", "FROM scratch\n")
    with refused("Dockerfile: the template writes a file that nobody owns"):
        render(samples.facts(), template)


def test_file_that_is_also_verbatim(template):
    with_file(template, "{{ package }}/model.py.jinja", "x = 1\n")
    with refused(r"my_project/model\.py: the template writes a file that redco copies as it is"):
        render(samples.facts(), template)


@pytest.mark.parametrize(
    "setting",
    [
        "_tasks: [touch ran]",
        "_migrations: [touch ran]",
        "_jinja_extensions: [os]",
        "_external_data: {other: ../secret.yml}",
        "_preserve_symlinks: true",
        "_not_known_yet: 1",
    ],
)
def test_refused_settings(template, setting):
    key = setting.partition(":")[0]
    with refused(rf"copier\.yml: it asks for {key}, which redco refuses; remove it"):
        render(samples.facts(), with_config(template, f"\n{setting}\n"))
    assert not list(template.parent.rglob("ran"))


def test_refused_jinja_settings(template):
    config = template / "copier.yml"
    config.write_text(config.read_text().replace("_envops:", "_envops:\n  extensions: [os]"))
    with refused(r"it asks for _envops\.extensions, which redco refuses"):
        render(samples.facts(), template)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !include b.yml", "not plain YAML"),
        ("a: [", "not plain YAML"),
        ("a: 1\n---\n_tasks: [touch ran]\n", "not plain YAML"),
        ("- a", "not a table of settings and questions"),
        ("_envops: 1", "not a table of settings and questions"),
    ],
)
def test_bad_config(template, text, message):
    (template / "copier.yml").write_text(text)
    with refused(message):
        render(samples.facts(), template)


def test_second_config_is_refused(template):
    (template / "copier.yaml").write_text("_tasks: [touch ran]\n")
    with refused(r"copier\.yaml lies beside copier\.yml; keep one of them"):
        render(samples.facts(), template)


def test_folder_that_is_no_template(tmp_path):
    with refused(r"no copier\.yml that can be read \(No such file or directory\)"):
        render(samples.facts(), tmp_path / "nothing")


def test_question_without_an_answer(template):
    with refused('Question "team" is required'):
        render(samples.facts(), with_config(template, "\nteam:\n  type: str\n"))


@pytest.mark.parametrize("target", ["../../secret.txt", "/etc/hosts", "gone", ".", ".."])
def test_links_that_leave_the_template(template, target):
    (template.parent / "secret.txt").write_text("secret")
    (template / "project" / "README.md.jinja").unlink()
    (template / "project" / "README.md.jinja").symlink_to(target)
    with refused("a link that does not point to a file of the template"):
        render(samples.facts(), template)


def test_link_within_the_template(template):
    (template / "project" / "launch" / "tpu-vm.sh.jinja").symlink_to("hosts.sh.jinja")
    files = render(samples.facts(), template)
    assert files["launch/tpu-vm.sh"] == files["launch/hosts.sh"]


def test_template_in_git_is_rendered_as_it_lies(template):
    def git(*args):
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *args], cwd=template, check=True, capture_output=True)

    for command in (["init"], ["add", "."], ["commit", "-m", "old"], ["tag", "v1.0"]):
        git(*command)
    with_file(template, "README.md.jinja", "edited\n")
    assert render(samples.facts(), template)["README.md"] == "edited\n"


def test_full_scratch_disk(template, monkeypatch):
    def no_space(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("copier.run_copy", no_space)
    with refused("the template cannot be rendered there: No space left on device; mend that, or"):
        render(samples.facts(), template)


def test_file_that_cannot_be_copied(template):
    os.mkfifo(template / "project" / "pipe")
    with refused("template: it cannot be copied: .*/project/pipe` is a named pipe; mend that"):
        render(samples.facts(), template)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("my_project/pipeline.py", YOURS),
        ("redco.toml", YOURS),
        ("my_project/sharding.py", GENERATED),
        ("tests/test_boot.py", GENERATED),
        ("redco_runtime/loop.py", GENERATED),
        (".gitignore", GENERATED),
    ],
)
def test_owners(path, name):
    assert owner(path, "my_project") == name


@pytest.mark.parametrize(
    "path", ["other/model.py", "launch/../../x.py", "/launch/x", "my_project/new.py", "setup.py"]
)
def test_paths_without_an_owner(path):
    with refused(re.escape(path)):
        owner(path, "my_project")
