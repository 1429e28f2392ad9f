"""What was printed of a PyTorch class, in a project that has it: its user's from then on, and never printed again unasked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from redco_new.errors import RedcoError
from redco_new.project.state import ProjectState
from redco_new.render.own_runtime import at_home
from redco_new.render.owners import without_header
from redco_new.request import Request
from redco_new.request.own_class import CLASS, TINY
from redco_new.update.migration import migrate_file
from redco_new.update.redco_toml import REDCO_TOML

MODEL = "model.py"
PRINTED = (MODEL, "weights.py")  # of the package
AGAIN = "redco update --print-model"


def printed_before(request: Request, state: ProjectState) -> Request:
    """Return a request with what was printed, as the user has it by now, with today's names of the runtime.

    Raises RedcoError where model.py is gone, or was printed of something else.
    """
    before, now = _model(state.manifest.request), _model(request.to_dict())
    if now != before:
        changed = sorted(k for k in now.keys() | before.keys() if now.get(k) != before.get(k))
        what = f"{MODEL} was printed with other values of {', '.join(changed)}"
        todo = f"change config.py, or print it again: {AGAIN}"
        raise RedcoError(f"{REDCO_TOML}: [model]", what, todo)

    def read(path: str) -> bytes | None:
        ours = state.ours(path)
        return ours and migrate_file(state, ours, path, request.package).content

    return with_printed(request, read)


def printed_once(state: ProjectState, request: Request) -> dict[str, bytes]:
    """Return path -> what redco once printed, of what it does not print again: its side of a merge."""
    paths = (f"{request.package}/{name}" for name in request.printed)
    bases = {path: state.base(path) for path in paths}
    return {
        path: migrate_file(state, base, path, request.package).content
        for path, base in bases.items()
        if base is not None
    }


def with_printed(request: Request, read: Callable[[str], bytes | None]) -> Request:
    """Return a request with what was printed. Raises RedcoError where model.py is gone.

    read: returns what a file of the project holds; None where there is none.
    """
    paths = {name: f"{request.package}/{name}" for name in PRINTED}
    contents = {name: read(path) for name, path in paths.items()}
    if contents[MODEL] is None:
        todo = f"bring it back: redco update --restore {paths[MODEL]}"
        raise RedcoError(paths[MODEL], "is missing", todo)
    texts = {
        name: at_home(without_header(content.decode("utf-8-sig", "replace")), request.package)
        for name, content in contents.items()
        if content is not None
    }
    return replace(request, printed=texts)


def _model(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the class and its arguments of a request as plain data."""
    model = request.get("model")
    model = model if isinstance(model, dict) else {CLASS: model}
    return {key: value for key, value in model.items() if key != TINY}
