"""What redco writes for a project today: for the template's model, or for its user's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from redco_new.request import Request

if TYPE_CHECKING:
    from redco_new.generate.context import ProjectContext
    from redco_new.models.program import Program
    from redco_new.render.template import Template


class Regeneration:
    """What redco writes for a request. Reading the model takes seconds, and may raise RedcoError.

    files: path -> text, for the model of the template.
    mesh: of the project's tests, axis -> size.
    model_record: the model, for the manifest.
    request: what it is written for, with what the model says of itself.
    notes: what its user should know.
    """

    def __init__(
        self,
        request: Request,
        template: Template,
        progress: Callable[[str], None] = lambda step: None,
    ) -> None:
        from redco_new.generate.read import read_model  # here: it imports jax, which takes seconds

        self._template = template
        progress(f"reading the model {request.model or request.recipe}")
        self._design = read_model(request, template, progress)
        self._program = self._design.program()
        self._context = self._context_of(self._program)
        self.mesh = self._context.layout.first.mesh
        self.model_record = self._design.record
        self.notes = tuple(self._design.notes)
        self.request = self._design.request
        progress("rendering")
        self.files = self._print(self._context)

    def of_own_model(self, project: Path) -> tuple[dict[str, str], list[str]]:
        """Return (files for the model, the settings and the loss in the folder `project`, notes).

        `mesh` is that of its tests from then on. Raises RedcoError, which names the user's line,
        where they cannot be traced.
        """
        from redco_new.update.user_model import import_package, user_program
        from redco_new.update.weights_notes import weights_notes

        request = self._design.request
        with import_package(project, request.package) as package:
            program, notes = user_program(
                package, self._program, self._context.model.class_name, request.folder.resolve()
            )
            context = self._context_of(program)
            notes = [*notes, *weights_notes(package, program)]
        self.mesh = context.layout.first.mesh
        return (self.files if context == self._context else self._print(context)), notes

    def _context_of(self, program: Program) -> ProjectContext:
        """Return what the templates print for the layout of `program`."""
        from redco_new.generate.files import project_context
        from redco_new.generate.plan import plan_program

        plan = plan_program(self._design.request, program)
        return project_context(self._design, program, plan)

    def _print(self, context: ProjectContext) -> dict[str, str]:
        from redco_new.generate.files import print_files

        return print_files(self._template, self._design, context)
