"""What redco writes for a project today: for the template's model, or for its user's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from redco_new.request import Request


class Regeneration:
    """What redco writes for a request. Reading the model takes seconds, and may raise RedcoError.

    files: path -> text, for the model of the template.
    mesh: of the project's tests, axis -> size.
    recorded: the model, for the manifest.
    notes: what its user should know.
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
        """Return (files for the model, the settings and the loss in the folder `project`, notes).

        `mesh` is that of its tests from then on. Raises RedcoError, which names the user's line,
        where they cannot be traced.
        """
        from redco_new.generate.context import gather
        from redco_new.update.user_model import import_package, user_program, weights_notes

        with import_package(project, self.request.package) as package:
            folder = self.request.folder.resolve()
            name = self._facts["model_class"]
            program, notes = user_program(package, self._program, name, folder)
            facts = gather(self._design, program)
            notes = [*notes, *weights_notes(package, program)]
        self.mesh = facts["test_mesh"]
        return (self.files if facts == self._facts else self._render(facts)), notes

    def _render(self, facts: dict[str, Any]) -> dict[str, str]:
        from redco_new.render.tree import render

        return render(facts, self.template)
