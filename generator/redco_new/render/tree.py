"""Templates + facts -> {path: text}. The only module that knows copier."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import copier
import jinja2
from copier.errors import CopierError

from redco_new.errors import RedcoError
from redco_new.render.owners import owner, with_header
from redco_new.render.python import MEND, blacken, place
from redco_new.render.template import stage_template


def render(facts: Mapping[str, Any], template: Path) -> dict[str, str]:
    """The text of every file of a project, by its path; sorted, with LF and a final newline.

    facts: what the templates print, by name. Two names have a meaning here: "package", the import
    name of the project, and "verbatim", {path: text} of the files that are taken as they are: they
    get their owner's header, and those of the runtime not even that.
    Raises RedcoError if the template is refused, fails, or writes a file that has no owner.
    """
    verbatim = facts["verbatim"]
    rendered = run_copier({k: v for k, v in facts.items() if k != "verbatim"}, template)
    if twice := sorted(rendered.keys() & verbatim.keys()):
        what = "the template writes a file that redco copies as it is"
        raise RedcoError(twice[0], what, "remove one of the two")
    files = {path: tidy(path, text, facts["package"]) for path, text in rendered.items()}
    for path, text in verbatim.items():
        files[path] = with_header(path, text, owner(path, facts["package"]))
    return dict(sorted(files.items()))


def tidy(path: str, text: str, package: str) -> str:
    """A rendered file as it is written: its owner's header, black's layout, one newline at the end."""
    text = with_header(path, text, owner(path, package))
    if path.endswith(".py"):
        text = blacken(path, text)
    return text.rstrip("\n") + "\n" if text.strip() else ""


def run_copier(facts: dict[str, Any], template: Path) -> dict[str, str]:
    """What copier makes of a template: {path: text}, unformatted."""
    with tempfile.TemporaryDirectory(prefix="redco-") as scratch:
        staged, out = Path(scratch, "template"), Path(scratch, "project")
        try:
            stage_template(template, staged)
            copier.run_copy(
                str(staged),
                out,
                data=facts,
                settings=copier.Settings(),
                defaults=True,
                quiet=True,
                skip_tasks=True,
            )
            paths = sorted(p for p in out.rglob("*") if not p.is_dir())
            return {p.relative_to(out).as_posix(): p.read_text(encoding="utf-8") for p in paths}
        except (jinja2.TemplateError, CopierError, ValueError, TypeError) as error:
            where = f"{template}{place(error, staged)}"
            raise RedcoError(where, " ".join(str(error).split()), MEND) from error
        except OSError as error:
            what = f"the template cannot be rendered there: {error.strerror}"
            raise RedcoError(scratch, what, "mend that, or set TMPDIR") from error
