"""Creating a project: render all of it in memory, stage it beside its place, rename it once."""

import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from redco_new.errors import RedcoError
from redco_new.project.records import new_records
from redco_new.request import Request
from redco_new.transaction import MANIFEST, sync_to_disk

if TYPE_CHECKING:
    from redco_new.generate.context import ProjectContext


def create_project(
    request: Request,
    parent: Path,
    source: Path | None = None,
    progress: Callable[[str], None] = lambda step: None,
    note: Callable[[str], None] = lambda text: None,
    see: Callable[["ProjectContext"], None] = lambda context: None,
) -> Path:
    """Write the project that `request` asks for to `parent`/name and return that path.

    source: a fork of redco's template, or None for redco's own.
    progress: called with what is done next.
    note: called with what the user should know of the model.
    see: called with what its templates printed.
    Raises RedcoError, and leaves nothing behind, if the place is taken or cannot be written to.
    """
    target = parent / request.name
    check_target(target)
    # Here: they import jax and copier, which takes seconds.
    from redco_new.generate.files import print_files, project_context
    from redco_new.generate.plan import plan_program
    from redco_new.generate.read import read_model
    from redco_new.render.template import open_template

    with open_template(source) as template:
        progress(f"reading the model {request.model or request.recipe}")
        model = read_model(request, template, progress)
        program = model.program()
        plan = plan_program(model.request, program)
        progress("rendering")
        context = project_context(model, program, plan)
        files = print_files(template, model, context)
    progress(f"writing {target}")
    for text in context.notes:
        note(text)
    see(context)
    fork = source is not None
    write_project(target, {**files, **new_records(model.request, files, fork, model.record)})
    return target


def check_target(target: Path) -> None:
    """Raise RedcoError if a project cannot be created at `target`."""
    parent = target.parent
    if not os.path.isdir(parent):
        state = "is not a folder" if os.path.lexists(parent) else "does not exist"
        raise RedcoError(str(parent), f"the parent folder {state}", "give a folder that exists")
    if os.path.lexists(target / MANIFEST):
        raise RedcoError(
            str(target),
            "already a redco project, and nothing in it was changed",
            "`redco update` brings it up to date",
        )
    if os.path.lexists(target):
        what = "exists and is not a redco project"
        raise RedcoError(str(target), what, "choose another name, or another folder with --output")
    if not os.access(parent, os.W_OK | os.X_OK):
        todo = "choose another folder with --output"
        raise RedcoError(str(parent), "the parent folder is read-only", todo)


def write_project(target: Path, files: Mapping[str, str | bytes]) -> None:
    """Write `files` to the new folder `target`, all or nothing. Raises RedcoError if the disk does not let it."""
    staging = target.with_name(f".{target.name}.redco-{secrets.token_hex(4)}")
    try:
        write_tree(staging, files)
        os.rename(staging, target)
    except OSError as error:
        what = f"cannot be written: {error.strerror}, and nothing was left"
        raise RedcoError(str(target), what, "mend that, or choose another --output") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)  # gone already where the rename took it


def write_tree(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Write `files` under the new folder `root`, through to the disk; scripts may be executed."""
    folders = sorted({root, *((root / path).parent for path in files)})
    root.mkdir()
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        file, content = root / path, text.encode() if isinstance(text, str) else text
        with open(file, "xb") as out:
            out.write(content)
        if content.startswith(b"#!"):
            file.chmod(file.stat().st_mode | 0o111)
    for place in (*map(root.joinpath, files), *folders):  # last: disks then write many at once
        sync_to_disk(place)
