"""A template of Python -> its text, in black's layout."""

import traceback
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import black
import jinja2
from jinja2.sandbox import SandboxedEnvironment

from redco_new.errors import RedcoError

BLACK = black.Mode(line_length=100, target_versions={black.TargetVersion.PY311})
MEND = "mend the template"


def print_python(template: Path, path: str, facts: Mapping[str, Any]) -> str:
    """The Python that the file `path` of a template makes of `facts`.

    A file that does not end in .jinja is taken as it is. Raises RedcoError, which says where, if it
    is missing, fails, or does not make Python.
    """
    try:
        if not path.endswith(".jinja"):
            return (template / path).read_text(encoding="utf-8")
        return blacken(path, environment(template).get_template(path).render(facts))
    except (jinja2.TemplateError, ValueError, TypeError) as error:
        where = f"{template}{place(error, template)}"
        raise RedcoError(where, " ".join(str(error).split()), MEND) from error
    except OSError as error:
        raise RedcoError(str(template / path), f"cannot be read: {error.strerror}", MEND) from error


class StrictArguments(jinja2.StrictUndefined):
    """StrictUndefined that also refuses a call of a macro without one of its arguments.

    Jinja makes such an argument undefined, and undefined values fail only where they are printed.
    """

    def __init__(self, hint: str | None = None, *arguments: Any, **options: Any) -> None:
        super().__init__(hint, *arguments, **options)
        if hint and hint.startswith("parameter ") and hint.endswith(" was not provided"):
            self._fail_with_undefined_error()


@lru_cache  # it keeps the templates that it has compiled
def environment(template: Path) -> SandboxedEnvironment:
    """Jinja for the files of a template, with the filter `python`."""
    found = SandboxedEnvironment(
        loader=jinja2.FileSystemLoader(template),
        undefined=StrictArguments,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["python"] = repr
    return found


def print_call(name: str, arguments: Mapping[str, Any]) -> str:
    """A call with keyword arguments, as Python."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


@lru_cache(maxsize=256)  # an update prints a project twice, and most of it is the same
def blacken(path: str, text: str) -> str:
    """Python in black's layout. Raises RedcoError for `path` if it is not Python."""
    try:
        return black.format_str(text, mode=BLACK)
    except black.InvalidInput as error:
        what = " ".join(f"rendered, it is not Python: {error}".split())
        raise RedcoError(path, what, MEND) from error


def place(error: Exception, folder: Path) -> str:
    """Where in a template a failure is, as far as Jinja tells: "/project/x.jinja, line 3"."""
    if isinstance(error, jinja2.TemplateSyntaxError) and error.name:
        return f"/{error.name}, line {error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(folder):
            return f"/{Path(frame.filename).relative_to(folder).as_posix()}, line {frame.lineno}"
    return ""
