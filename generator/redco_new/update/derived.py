"""The files of a project, for the template's model or for the one that its user has by now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from redco_new.request import Request


class Derived:
    """What redco writes for a request. Reading the model takes seconds, and may raise RedcoError.

    files: path -> text, for the model of the template.  mesh: of the project's tests, axis -> size.
    recorded: the model, for the manifest.  notes: what its user should know.
    """

    def __init__(
        self, request: Request, template: Path, progress: Callable[[str], None] = lambda step: None
    ) -> None:
        from redco_new.generate import context  # here: it imports jax, which takes seconds
        from redco_new.generate.design import find_design, rows

        self.request, self.template = request, template
        progress(f"reading the model {request.model}")
        self._design = find_design(request, template)
        self._program = self._design.program(rows(request))
        self._facts = context.gather(self._design, self._program)
        self.mesh, self.recorded = self._facts["test_mesh"], self._design.recorded
        self.notes = tuple(self._design.notes)
        progress("rendering")
        self.files = self._render(self._facts)

    def of_own_model(self, project: Path) -> tuple[dict[str, str], list[str]]:
        """(files for the model, the settings and the loss in the folder `project`, notes).

        `mesh` is that of its tests from then on. Raises RedcoError, which names the user's line, where they cannot be traced.
        """
        from redco_new.generate.context import gather
        from redco_new.update.package import imported
        from redco_new.update.user_program import user_program, weights_notes

        with imported(project, self.request.package) as package:
            folder = self.request.folder.resolve()
            name = self._facts["model_class"]
            program, notes = user_program(package, self._program, name, folder)
            known = gather(self._design, program)
            notes = [*notes, *weights_notes(package, program)]
        self.mesh = known["test_mesh"]
        return (self.files if known == self._facts else self._render(known)), notes

    def _render(self, known: dict[str, Any]) -> dict[str, str]:
        from redco_new.render.tree import render

        return render(known, self.template)
