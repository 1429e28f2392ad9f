"""Working out an update: everything that would change, and nothing written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from redco_new.render import assets
from redco_new.errors import RedcoError
from redco_new.project.manifest import Pending
from redco_new.merge import Conflict
from redco_new.request import Request
from redco_new.update.asked import REDCO_TOML, settle_toml
from redco_new.update.derived import Derived
from redco_new.update.mirror import mirrored
from redco_new.update.outcome import Outcome, owned, settle
from redco_new.update.pending import chosen, taken_back, to_settle, without
from redco_new.update.standing import Standing

Progress = Callable[[str], None]
SOURCES = ("model", "config", "pipeline")  # the modules of a package that its layout follows from


@dataclass(frozen=True)
class Update:
    """asked: what redco.toml said; request: what is asked for now.  fork: of redco's template.

    rendered: path -> what redco writes for this request and the user's own model.
    outcomes: path -> what becomes of each file.  mesh: of the project's tests.
    unread: why the merged model could not be read, where conflicts come first.
    recorded: the model, for the manifest.  notes: what the user should know of the layout.
    """

    standing: Standing
    asked: Request
    request: Request
    fork: bool
    rendered: Mapping[str, bytes] = field(default_factory=dict)
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    mesh: Mapping[str, int] = field(default_factory=dict)
    unread: RedcoError | None = None
    recorded: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def files(self) -> dict[str, bytes | None]:
        """path -> content of each file that changes, None for one that goes."""
        return {path: each.after for path, each in self.outcomes.items() if each.changed}

    @property
    def blocking(self) -> list[tuple[str, Conflict]]:
        """The conflicts, with their files, that are to be settled before anything is written."""
        return [(path, each) for path, each in self.conflicts if not each.pending]

    @property
    def conflicts(self) -> list[tuple[str, Conflict]]:
        """All conflicts, with their files."""
        return [(path, each) for path, x in self.outcomes.items() for each in x.conflicts]

    @property
    def climb(self) -> int:
        """How many folders above the project the paths of its redco.toml reach."""
        own = self.request.own
        paths = [self.request.model, *([own.example] if own else [])]
        return max(PurePosixPath(path).parts.count("..") for path in paths)

    @property
    def held(self) -> list[Pending]:
        """What is to be settled before it is written."""
        return self._pending(applied=False)

    @property
    def left(self) -> list[Pending]:
        """What is to be settled once the rest of it is written."""
        return self._pending(applied=True)

    def _pending(self, applied: bool) -> list[Pending]:
        manifest, found = self.standing.manifest, []
        for path, outcome in self.outcomes.items():
            base = self.standing.base(path, self.rendered.get(path))
            conflicts = [x for x in outcome.conflicts if applied or not x.pending]
            found += to_settle(manifest, outcome, base, conflicts, applied)
        return found


def work_out(
    standing: Standing,
    asked: Request,
    request: Request,
    template: Path | None = None,
    progress: Progress = lambda step: None,
) -> Update:
    """What updating a project to `request` would change.

    template: a fork of redco's, or None for redco's own.  Raises RedcoError.
    """
    from redco_new.render.template import check_template

    if standing.manifest.fork and template is None:
        what = "was made with a fork of redco's templates"
        raise RedcoError(str(standing.root), what, "name its folder with --template")
    source = template or assets.templates()
    check_template(source)
    derived = Derived(request, source, progress)
    update = Update(
        standing,
        asked,
        request,
        template is not None,
        mesh=derived.mesh,
        recorded=derived.recorded,
        notes=derived.notes,
    )
    update = merged(update, derived.files)
    if edited(update):
        progress("reading your model")
        update = with_own_model(update, derived)
    return update


def edited(update: Update) -> bool:
    """Whether what the layout follows from is not as the template has it."""
    sources = {f"{update.request.package}/{name}.py" for name in SOURCES} & update.rendered.keys()
    return any(update.outcomes[path].after != update.rendered[path] for path in sources)


def with_own_model(update: Update, derived: Derived) -> Update:
    """With what redco writes for the model as it is merged. Raises RedcoError.

    Where conflicts keep that model from being read, they come first: the rest stays as it was.
    """
    with mirrored(update.standing.root, update.files, update.climb) as project:

        def told(text: str) -> str:
            return text.replace(f"{project}/", "")

        try:
            files, notes = derived.of_own_model(project)
        except RedcoError as error:
            mapped = RedcoError(told(error.where), told(error.what), error.todo)
            if update.blocking:
                return replace(update, unread=mapped)
            raise mapped from error
    update = update if files is derived.files else merged(update, files)
    return replace(update, mesh=derived.mesh, notes=(*update.notes, *map(told, notes)))


def merged(update: Update, texts: Mapping[str, str]) -> Update:
    """With these files as the template's side."""
    manifest = update.standing.manifest
    ejected = {*manifest.ejected}
    rendered = {path: text.encode() for path, text in texts.items() if path not in ejected}
    paths = sorted({*rendered, *manifest.files} - ejected)
    outcomes = {path: settled(update, path, rendered.get(path)) for path in paths}
    return replace(update, rendered=rendered, outcomes=outcomes)


def settled(update: Update, path: str, theirs: bytes | None) -> Outcome:
    """What becomes of one file, as the user has chosen where there was a choice."""
    standing = update.standing
    sides = {"base": standing.base(path, theirs), "ours": standing.ours(path), "theirs": theirs}

    def attempt(taken: set[str]) -> Outcome:
        if path == REDCO_TOML and theirs is not None:
            return settle_toml(standing, update.asked, update.request, theirs)
        return settle(path, **sides, owned=owned(path, update.request.package), taken=taken)

    outcome = attempt(set())
    if taken := chosen(standing.manifest, outcome, "theirs"):
        outcome = attempt(taken)
    kept = chosen(standing.manifest, outcome, "mine")
    outcome = without(outcome, kept | taken_back(standing.manifest, outcome))
    left = {x.symbol for x in outcome.conflicts}
    return replace(outcome, settled=frozenset((taken | kept) - left))
