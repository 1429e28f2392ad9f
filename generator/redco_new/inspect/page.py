"""A document of `redco inspect` as one page of HTML that needs nothing else."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from redco_new.errors import RedcoError

MARK = '<meta name="generator" content="redco inspect">'  # in the first lines of each page
HEAD = 500  # characters
TODO = "choose another FILE"


def check(target: Path) -> None:
    """Raise RedcoError if a page cannot be written to `target`; only a page is replaced."""
    where, parent = f"--html {target}", target.parent
    if target.is_dir():
        raise RedcoError(where, "it is a folder", "give the page a name, such as plan.html")
    if not parent.is_dir():
        raise RedcoError(where, f"no folder {parent}", "give a folder that exists")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise RedcoError(where, f"the folder {parent} is read-only", TODO)
    if os.path.lexists(target) and not is_page(target):
        raise RedcoError(where, "the file exists and is not a page of redco inspect", TODO)


def is_page(path: Path) -> bool:
    """Whether a file is a page that redco wrote."""
    try:
        with open(path, encoding="utf-8") as file:
            return MARK in file.read(HEAD)
    except (OSError, UnicodeError):
        return False


def write(target: Path, doc: dict[str, Any]) -> None:
    """Put the page of a document at `target`, whole or not at all."""
    staging = target.with_name(f".{target.name}.redco-{secrets.token_hex(4)}")
    try:
        staging.write_text(render(doc), encoding="utf-8")
        os.replace(staging, target)
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise RedcoError(str(target), what, TODO) from error
    finally:
        staging.unlink(missing_ok=True)


def render(doc: dict[str, Any]) -> str:
    """The page of a document. All text of the user's is escaped."""
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
        (rows, drawing.draw(rows[0], doc["mesh"], longest))
        for rows in drawing.alike(doc["parameters"])
    ]
    template = environment.get_template("page.html.jinja")
    return template.render(doc=doc, groups=groups, units=units, **colours(doc))


def colours(doc: dict[str, Any]) -> dict[str, Any]:
    """axes: the mesh axes of more than one device, in the order of their colours."""
    return {"axes": {axis: n for axis, n in doc["mesh"].items() if n > 1}}
