"""A template folder whose files copier prints: every file of a project comes from here."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import copier
import jinja2
from copier.errors import CopierError
from plumbum import local

from redco_new.errors import RedcoError
from redco_new.render import assets
from redco_new.render.check import FOLDER, PROJECT, stage_template
from redco_new.render.imports import drop_unused_imports
from redco_new.render.python import MEND, format_python, print_data
from redco_new.render.values import admit

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Template:
    """A template that passed its checks.

    source: its folder, for messages.
    staged: what is printed from: a copy, where it is somebody's fork.
    project: the folder of it that mirrors a project.
    """

    source: Path
    staged: Path
    project: str

    def print_project(self, context: DataclassInstance) -> dict[str, str]:
        """Return the text of every file of the project folder, as `print_folder` does."""
        return self.print_folder(self.project, context)

    def print_folder(self, folder: str, context: DataclassInstance) -> dict[str, str]:
        """Return the text of every file that `folder` holds, by its path there, in sorted order.

        Python is in black's layout, without imports that it does not use; every text has LF and one newline at
        its end.
        context: a frozen dataclass: templates see its fields by their names, and `python`, which
        is print_data.
        Raises RedcoError, which says where, if a value is not what its field declares, or a file cannot be
        printed or is not Python.
        """
        admit(context, folder)
        data = {field.name: getattr(context, field.name) for field in fields(context)}
        texts = self._run_copier(data | {FOLDER: folder, "python": print_data})
        return {path: _tidy(path, text) for path, text in texts.items()}

    def read(self, path: str) -> str:
        """Return the text of a file of the template as it is. Raises RedcoError where there is none."""
        try:
            return (self.staged / path).read_text(encoding="utf-8")
        except OSError as error:
            raise RedcoError(f"{self.source}/{path}", str(error.strerror), MEND) from error

    def _run_copier(self, data: dict[str, Any]) -> dict[str, str]:
        with tempfile.TemporaryDirectory(prefix="redco-") as scratch:
            try:
                out = Path(scratch, "project")
                # Out of git's reach: copier asks it about every file, for folders that are of no repository.
                with local.env(PATH=os.devnull):
                    copier.run_copy(
                        str(self.staged),
                        out,
                        data=data,
                        settings=copier.Settings(),
                        defaults=True,
                        quiet=True,
                        skip_tasks=True,
                    )
                paths = sorted(path for path in out.rglob("*") if not path.is_dir())
                return {p.relative_to(out).as_posix(): p.read_text(encoding="utf-8") for p in paths}
            except (jinja2.TemplateError, CopierError, ValueError, TypeError) as error:
                where = f"{self.source}{_template_line(error, self.staged)}"
                raise RedcoError(where, " ".join(str(error).split()), MEND) from error
            except OSError as error:
                raise _scratch_error(error, scratch) from error


@contextmanager
def open_template(source: Path | None = None) -> Iterator[Template]:
    """Yield the template in the folder `source`, staged for as long as it is open, or redco's own.

    Raises RedcoError if it is refused, or cannot be copied.
    """
    if source is None:
        own = assets.templates()
        yield Template(own, own, PROJECT)  # which would pass the checks, and stay as it is
        return
    with tempfile.TemporaryDirectory(prefix="redco-") as scratch:
        staged = Path(scratch, "template")
        try:
            project = stage_template(source, staged)
        except OSError as error:
            raise _scratch_error(error, scratch) from error
        yield Template(source, staged, project)


def _scratch_error(error: OSError, scratch: str) -> RedcoError:
    what = f"the template cannot be rendered there: {error.strerror}"
    return RedcoError(scratch, what, "mend that, or set TMPDIR")


def _tidy(path: str, text: str) -> str:
    text = text.rstrip("\n") + "\n" if text.strip() else ""
    return format_python(path, drop_unused_imports(text)) if path.endswith(".py") else text


def _template_line(error: Exception, folder: Path) -> str:
    """Return where in a template a failure is, as far as Jinja says: "/project/x.jinja, line 3"."""
    if isinstance(error, jinja2.TemplateSyntaxError) and error.name:
        return f"/{error.name}, line {error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(folder):
            return f"/{Path(frame.filename).relative_to(folder).as_posix()}, line {frame.lineno}"
    return ""
