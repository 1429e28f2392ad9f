"""A document of `redco inspect` as one page of HTML that needs nothing else."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path

from redco_new.errors import RedcoError
from redco_new.inspect.schema import Document

# In the first lines of each page.
MARKS = tuple(f'<meta name="generator" content="redco {name}">' for name in ("inspect", "fit"))
HEAD = 500  # characters of a file that are searched for MARKS, which begin within the first 100
MODELS = ("model", "model2", "model3")  # colours of page.html.jinja
ANOTHER_FILE = "choose another FILE"


def check_page_target(target: Path) -> None:
    """Raise RedcoError if a page cannot be written to `target`; only a page is replaced."""
    where, parent = f"--html {target}", target.parent
    if target.is_dir():
        raise RedcoError(where, "it is a folder", "give the page a name, such as plan.html")
    if not parent.is_dir():
        raise RedcoError(where, f"no folder {parent}", "give a folder that exists")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise RedcoError(where, f"the folder {parent} is read-only", ANOTHER_FILE)
    if os.path.lexists(target) and not _is_page(target):
        raise RedcoError(
            where, "the file exists and is not a page of redco inspect or fit", ANOTHER_FILE
        )


def _is_page(path: Path) -> bool:
    """Return whether a file is a page that redco wrote."""
    try:
        with open(path, encoding="utf-8") as file:
            head = file.read(HEAD)
            return any(mark in head for mark in MARKS)
    except (OSError, UnicodeError):
        return False


def write_page(target: Path, doc: Document) -> None:
    """Write the page of a document to `target`, whole or not at all. Raises RedcoError."""
    write_text(target, render_page(doc))


def write_text(target: Path, text: str) -> None:
    """Write a page to `target`, whole or not at all. Raises RedcoError."""
    staging = target.with_name(f".{target.name}.redco-{secrets.token_hex(4)}")
    try:
        staging.write_text(text, encoding="utf-8")
        os.replace(staging, target)
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise RedcoError(str(target), what, ANOTHER_FILE) from error
    finally:
        staging.unlink(missing_ok=True)


def render_page(doc: Document) -> str:
    """Return the page of a document. All text of the user's is escaped."""
    import jinja2

    from redco_new.inspect import drawing, units

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sizes = (size for row in doc["parameters"] for size in row["stored_shape"])
    longest = max(sizes, default=1)
    groups = [
        (
            rows[0],
            drawing.draw_parameter(rows[0], doc["mesh"], longest),
            [row["path"] for row in rows],
        )
        for rows in drawing.group_layers(doc["parameters"])
    ]
    return environment.get_template("page.html.jinja").render(
        doc=doc,
        groups=groups,
        units=units,
        axes={axis: n for axis, n in doc["mesh"].items() if n > 1},
        colours=axis_colours(doc["mesh"]),
    )


def axis_colours(mesh: Mapping[str, int]) -> dict[str, str]:
    """Return the colour of each axis, its own name: those that model is taken apart into have one each, in turn."""
    parts = [axis for axis in mesh if axis.startswith("model")]
    return dict(zip(mesh, mesh, strict=True)) | dict(zip(parts, cycle(MODELS), strict=False))
