"""The plan of an update: everything that would change, and nothing written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from redco_merge import Conflict

from redco_new.errors import RedcoError
from redco_new.project.manifest import PendingChange
from redco_new.render.carried import carried
from redco_new.render.owners import GENERATED, owner
from redco_new.request import Request
from redco_new.update.file_merge import FileMerge, merge_file, user_functions_of
from redco_new.update.kept_defaults import keep_defaults
from redco_new.update.migration import (
    migrate_own_files,
    migrate_sides,
    moved_files,
    own_files,
    with_stale_names,
)
from redco_new.update.printed import printed_once
from redco_new.update.pending import (
    pending_changes,
    symbols_back_at_base,
    symbols_with_decision,
    without_conflicts,
)
from redco_new.project.state import ProjectState
from redco_new.update.redco_toml import REDCO_TOML, merge_redco_toml
from redco_new.update.regenerate import Regeneration
from redco_new.project.sandbox import mirror_project

Progress = Callable[[str], None]
SOURCES = ("model", "config", "pipeline")  # the modules of a package that its layout follows from


@dataclass(frozen=True)
class UpdatePlan:
    """What an update would change.

    state: the project as it is.
    toml_request: what its redco.toml asks for.
    request: the same with the flags of the command.
    fork: whether the template is not redco's own.
    renderings: path -> what redco writes for this request and the user's own model.
    merges: path -> what becomes of each file.
    mesh: of the project's tests, axis -> size.
    reading_error: why the merged model could not be read, where conflicts come first.
    model_record: the model, for the manifest.
    notes: what the user should know of the layout.
    moved: path -> path before, of what the user made of files that a migration moves.
    """

    state: ProjectState
    toml_request: Request
    request: Request
    fork: bool
    renderings: Mapping[str, bytes] = field(default_factory=dict)
    merges: Mapping[str, FileMerge] = field(default_factory=dict)
    mesh: Mapping[str, int] = field(default_factory=dict)
    reading_error: RedcoError | None = None
    model_record: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)

    @property
    def ejected_paths(self) -> tuple[str, ...]:
        """The files that redco leaves to the user, where they lie after it."""
        return tuple(map(self.path_after, self.state.manifest.ejected_paths))

    def path_after(self, path: str) -> str:
        """Return where a file lies after it."""
        return next((new for new, old in self.moved.items() if old == path), path)

    @property
    def changed_files(self) -> dict[str, bytes | None]:
        """path -> content of each file that changes, None for one that goes."""
        return {path: merge.after for path, merge in self.merges.items() if merge.changed}

    @property
    def conflicts(self) -> list[tuple[str, Conflict]]:
        """All conflicts, with their files."""
        return [(path, x) for path, merge in self.merges.items() for x in merge.conflicts]

    @property
    def blocking_conflicts(self) -> list[tuple[str, Conflict]]:
        """The conflicts, with their files, to be decided on before anything is written."""
        return [(path, conflict) for path, conflict in self.conflicts if not conflict.pending]

    @property
    def levels_up(self) -> int:
        """How many folders above the project the paths of its redco.toml reach."""
        own = self.request.own
        paths = [self.request.model, *([own.example] if own else [])]
        return max(PurePosixPath(path).parts.count("..") for path in paths)

    @property
    def pending_if_refused(self) -> list[PendingChange]:
        """What the user is to decide on before anything is written."""
        return self._pending(update_applied=False)

    @property
    def pending_if_applied(self) -> list[PendingChange]:
        """What the user is to decide on once the rest is written."""
        return self._pending(update_applied=True)

    def _pending(self, update_applied: bool) -> list[PendingChange]:
        changes = []
        for path, merge in self.merges.items():
            base = self.state.base(path)
            conflicts = [x for x in merge.conflicts if update_applied or not x.pending]
            changes += pending_changes(
                self.state.manifest, merge, base, conflicts, update_applied=update_applied
            )
        return changes


def plan_update(
    state: ProjectState,
    toml_request: Request,
    request: Request,
    source: Path | None = None,
    progress: Progress = lambda step: None,
) -> UpdatePlan:
    """Return what updating a project to `request` would change.

    toml_request: what its redco.toml asks for.
    source: a fork of redco's templates, or None for redco's own.
    Raises RedcoError.
    """
    from redco_new.render.template import open_template  # here: it imports copier

    if state.manifest.fork and source is None:
        what = "was made with a fork of redco's templates"
        raise RedcoError(str(state.root), what, "name its folder with --template")
    with open_template(source) as template:
        regeneration = Regeneration(request, template, progress)
        plan = UpdatePlan(
            state,
            toml_request,
            regeneration.request,
            source is not None,
            mesh=regeneration.mesh,
            model_record=regeneration.model_record,
            notes=regeneration.notes,
            moved=moved_files(state, request.package),
        )
        plan = _with_renderings(plan, regeneration.files)
        if _sources_differ(plan):
            progress("reading your model")
            plan = _with_user_model(plan, regeneration)
    return plan


def _sources_differ(plan: UpdatePlan) -> bool:
    """Tell whether what the layout follows from is not as the template has it."""
    sources = {f"{plan.request.package}/{name}.py" for name in SOURCES} & plan.renderings.keys()
    return any(plan.merges[path].after != plan.renderings[path] for path in sources)


def _with_user_model(plan: UpdatePlan, regeneration: Regeneration) -> UpdatePlan:
    """Return the plan with what redco writes for the model as it is merged. Raises RedcoError.

    Where conflicts keep that model from being read, they come first: the rest stays as it was.
    """
    with mirror_project(plan.state.root, plan.changed_files, plan.levels_up) as project:

        def real(text: str) -> str:
            return text.replace(f"{project}/", "")

        try:
            files, notes = regeneration.of_own_model(project)
        except RedcoError as error:
            real_error = RedcoError(real(error.where), real(error.what), error.todo)
            if plan.blocking_conflicts:
                return replace(plan, reading_error=real_error)
            raise real_error from error
    plan = plan if files is regeneration.files else _with_renderings(plan, files)
    return replace(plan, mesh=regeneration.mesh, notes=(*plan.notes, *map(real, notes)))


def _with_renderings(plan: UpdatePlan, texts: Mapping[str, str]) -> UpdatePlan:
    """Return the plan with these files as the template's side."""
    manifest = plan.state.manifest
    texts, defaults = _with_kept_defaults(plan, texts)
    ejected_paths = {*plan.ejected_paths}
    renderings = {path: text.encode() for path, text in texts.items() if path not in ejected_paths}
    renderings |= printed_once(plan.state, plan.request)
    paths = {*renderings, *manifest.files} - ejected_paths | {*plan.moved, *plan.moved.values()}
    merges = {path: _merge_one(plan, path, renderings.get(path)) for path in sorted(paths)}
    own = migrate_own_files(plan.state, plan.request.package, paths)
    merges |= {merge.path: merge for merge in own}
    # What the user's code names of the runtime comes too, and stays, though redco's names it not.
    sides = {x.path: x.after for x in merges.values() if x.after is not None}
    contents = {**sides, **own_files(plan.state, merges)}
    code = {path: content.decode(errors="replace") for path, content in contents.items()}
    for path, text in carried(code, plan.request.package).items():
        if path not in renderings and path not in ejected_paths:
            renderings[path] = text.encode()
            merges[path] = _merge_one(plan, path, renderings[path])
    config = merges.get(f"{plan.request.package}/config.py")
    news = defaults if config and config.changed else []  # once, and not at each update
    notes = (*plan.notes, *(note for note in news if note not in plan.notes))
    return replace(plan, renderings=renderings, merges=merges, notes=notes)


def _with_kept_defaults(
    plan: UpdatePlan, texts: Mapping[str, str]
) -> tuple[Mapping[str, str], list[str]]:
    """Return the files as a project of this recipe that was made before has them, and what it keeps."""
    before, now = plan.state.manifest.request, plan.request.to_dict()
    path = f"{plan.request.package}/config.py"
    other = any(before.get(key) != now.get(key) for key in ("recipe", "lora"))
    base = plan.state.base(path)
    if other or not base or path not in texts:
        return texts, []
    text, notes = keep_defaults(texts[path], base.decode())
    return {**texts, path: text}, notes


def _merge_one(plan: UpdatePlan, path: str, theirs: bytes | None) -> FileMerge:
    """Return what becomes of one file, with the sides that the user has chosen."""
    state, package = plan.state, plan.request.package
    if path in plan.moved.values():
        note = f"it is {plan.path_after(path)} now, with what you made of it"
        return FileMerge(path, state.ours(path), None, note=note)
    former = plan.moved.get(path, path)
    ours, base = state.ours(former), state.base(former)
    base, migrated = migrate_sides(state, path, package, base, ours)
    if path in plan.ejected_paths and migrated:
        return FileMerge(path, state.ours(path), migrated.content, steps=migrated.steps)
    generated = theirs is not None and owner(path, package) == GENERATED

    def merge(prefer_theirs: set[str]) -> FileMerge:
        if path == REDCO_TOML and theirs is not None:
            return merge_redco_toml(state, plan.toml_request, plan.request, theirs)
        merged = merge_file(
            path,
            base,
            migrated.content if migrated else None,
            theirs,
            generated=generated,
            user_functions=user_functions_of(path, package),
            prefer_theirs=prefer_theirs,
        )
        before = state.ours(path)
        return replace(merged, before=before, steps=migrated.steps if migrated else ())

    outcome = merge(set())
    if prefer_theirs := symbols_with_decision(state.manifest, outcome, "theirs"):
        outcome = merge(prefer_theirs)
    keep_mine = symbols_with_decision(state.manifest, outcome, "mine")
    outcome = without_conflicts(outcome, keep_mine | symbols_back_at_base(state.manifest, outcome))
    open_symbols = {x.symbol for x in outcome.conflicts}
    resolved_symbols = frozenset((prefer_theirs | keep_mine) - open_symbols)
    return with_stale_names(state, replace(outcome, resolved_symbols=resolved_symbols))
