"""A fork of the template: what it may ask for, and what is refused before anything runs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import samples

from redco_new.errors import RedcoError
from redco_new.models.recipes import RECIPES
from redco_new.render import assets
from redco_new.render.check import check_template
from redco_new.render.template import open_template


def refused(match):
    return pytest.raises(RedcoError, match=match)


@pytest.fixture
def template(tmp_path):
    return samples.write_template(tmp_path / "template")


def with_config(template: Path, text: str) -> Path:
    config = template / "copier.yml"
    config.write_text(config.read_text() + text, encoding="utf-8")
    return template


def test_undefined_variable_whatever_the_fork_says(template):
    config = template / "copier.yml"
    config.write_text(config.read_text().replace("StrictUndefined", "Undefined"))
    samples.with_file(template, "README.md.jinja", "{{ projcet }}")
    with refused("'projcet' is undefined"):
        samples.render(template)


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
        samples.render(with_config(template, f"\n{setting}\n"))
    assert not list(template.parent.rglob("ran"))


def test_refused_jinja_settings(template):
    config = template / "copier.yml"
    config.write_text(config.read_text().replace("_envops:", "_envops:\n  extensions: [os]"))
    with refused(r"it asks for _envops\.extensions, which redco refuses"):
        samples.render(template)


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
        samples.render(template)


def test_second_config_is_refused(template):
    (template / "copier.yaml").write_text("_tasks: [touch ran]\n")
    with refused(r"copier\.yaml lies beside copier\.yml; keep one of them"):
        samples.render(template)


def test_folder_that_is_no_template(tmp_path):
    with refused(r"no copier\.yml that can be read \(No such file or directory\)"):
        samples.render(tmp_path / "nothing")


def test_question_without_an_answer(template):
    with refused('Question "team" is required'):
        samples.render(with_config(template, "\nteam:\n  type: str\n"))


@pytest.mark.parametrize("target", ["../../secret.txt", "/etc/hosts", "gone", ".", ".."])
def test_links_that_leave_the_template(template, target):
    (template.parent / "secret.txt").write_text("secret")
    (template / "project" / "README.md.jinja").unlink()
    (template / "project" / "README.md.jinja").symlink_to(target)
    with refused("a link that does not point to a file of the template"):
        samples.render(template)


def test_link_within_the_template(template):
    (template / "project" / "launch" / "slurm.sbatch.jinja").symlink_to("hosts.sh.jinja")
    files = samples.render(template)
    assert files["launch/slurm.sbatch"] == files["launch/hosts.sh"]


def test_template_in_git_is_rendered_as_it_lies(template):
    def git(*args):
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *args], cwd=template, check=True, capture_output=True)

    for command in (["init"], ["add", "."], ["commit", "-m", "old"], ["tag", "v1.0"]):
        git(*command)
    samples.with_file(template, "README.md.jinja", "edited\n")
    assert samples.render(template)["README.md"] == "edited\n"


def test_no_process_is_started(template, monkeypatch):
    def started(*args, **kwargs):
        raise AssertionError(f"{args} was started")

    monkeypatch.setattr(subprocess, "Popen", started)
    assert samples.render(template)


def test_file_that_cannot_be_copied(template):
    os.mkfifo(template / "project" / "pipe")
    with refused("template: it cannot be copied: .*/project/pipe` is a named pipe; mend that"):
        samples.render(template)


def test_own_template_is_what_a_copy_of_it_is(tmp_path):
    """It is printed from where it is, unchecked."""
    check_template(assets.templates())
    shutil.copytree(assets.templates(), tmp_path / "fork")
    with open_template() as own, open_template(tmp_path / "fork") as fork:
        facts = ("my_project", False)
        printed = RECIPES["lm"].print_files(own, *facts)
        assert printed == RECIPES["lm"].print_files(fork, *facts)
        assert own.project == fork.project
        assert own.staged == assets.templates() != fork.staged


def test_a_fork_may_name_another_folder(template):
    config = template / "copier.yml"
    config.write_text(config.read_text().replace('"{{ redco_folder }}"', "other"))
    (template / "project").rename(template / "other")
    assert list(samples.render(template)) == samples.PATHS
