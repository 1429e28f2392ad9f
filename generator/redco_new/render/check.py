"""A copier template that may be somebody's fork: what it may ask for, checked before anything runs."""

import shutil
from pathlib import Path
from typing import Any

import yaml

from redco_new.errors import RedcoError

CONFIG = "copier.yml"
FOLDER = "redco_folder"  # the name by which copier is told which folder of the template it prints
PRINTED = f"{{{{ {FOLDER} }}}}"  # as copier.yml has it
PROJECT = "project"  # the folder that mirrors a project, where copier.yml names no other

# The settings that redco honours, or that do nothing here. Whatever else copier knows, or comes to
# know (tasks, migrations, Jinja extensions, external data, symlinks), is refused.
SETTINGS = frozenset(
    {"_answers_file", "_envops", "_exclude", "_message_after_copy", "_message_after_update"}
    | {"_message_before_copy", "_message_before_update", "_min_copier_version"}
    | {"_secret_questions", "_skip_if_exists", "_subdirectory", "_templates_suffix"}
)
ENVOPS = frozenset(
    {"block_end_string", "block_start_string", "comment_end_string", "comment_start_string"}
    | {"keep_trailing_newline", "lstrip_blocks", "trim_blocks", "undefined"}
    | {"variable_end_string", "variable_start_string"}
)


def stage_template(template: Path, folder: Path) -> str:
    """Copy a template to `folder`, with a copier.yml of what was checked; return its project folder.

    The copy is out of git's sight (copier renders the newest tag of a git repository, not its
    files) and an undefined variable is an error whatever the fork says. Raises RedcoError as
    check_template does.
    """
    config = check_template(template)
    try:
        shutil.copytree(template, folder, ignore=shutil.ignore_patterns(".git", "__pycache__"))
    except shutil.Error as error:
        what = f"it cannot be copied: {error.args[0][0][2]}"  # the first of its files that cannot
        raise RedcoError(str(template), what, "mend that, or set TMPDIR") from error
    project = config.get("_subdirectory", "")
    config["_envops"] = {**config.get("_envops", {}), "undefined": "jinja2.StrictUndefined"}
    config["_subdirectory"] = PRINTED
    (folder / CONFIG).write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return PROJECT if project == PRINTED else project


def check_template(template: Path) -> dict[str, Any]:
    """Return the settings and questions of a template that may be rendered.

    Raises RedcoError if it is no template, asks for a setting that is not honoured, or has a link
    that points elsewhere.
    """
    config = read_config(template)
    check_links(template)
    if others := sorted(p.name for p in template.glob("copier.*") if p.name != CONFIG):
        raise RedcoError(str(template), f"{others[0]} lies beside {CONFIG}", "keep one of them")
    return config


def read_config(template: Path) -> dict[str, Any]:
    """Return the settings and questions of a template. Raises RedcoError if it is not one, or not safe."""
    path = template / CONFIG
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        what = f"no {CONFIG} that can be read ({error.strerror})"
        raise RedcoError(str(template), what, "give a copy of redco's templates folder") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        what = " ".join(f"not plain YAML: {error}".split())
        raise RedcoError(str(path), what, "mend it, without tags such as !include") from error
    envops = config.get("_envops", {}) if isinstance(config, dict) else None
    if not isinstance(envops, dict):
        raise RedcoError(str(path), "not a table of settings and questions", "mend it")
    refused = [key for key in config if str(key).startswith("_") and key not in SETTINGS]
    refused += [f"_envops.{key}" for key in envops if key not in ENVOPS]
    if refused:
        what = f"it asks for {', '.join(map(str, refused))}, which redco refuses"
        raise RedcoError(str(path), what, "remove it: a template only prints files")
    return config


def check_links(template: Path) -> None:
    """Raise RedcoError if a symbolic link in `template` is not to a file of `template`."""
    root = template.resolve()
    for path in template.rglob("*"):
        if path.is_symlink():
            target = path.resolve()
            if not target.is_file() or not target.is_relative_to(root):
                what = "a link that does not point to a file of the template"
                raise RedcoError(str(path), what, "put the file itself there")
