"""What users' code calls of redco, as redco has it now: both sides of a merge, and files of the user's own."""

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from redco_merge.migrate import LATEST, Migrated, migrate, stale_names
from redco_merge.migrate.moves import moved_path
from redco_merge.migrate.versions.rooms import MIGRATION as ROOMS
from redco_merge.migrate.versions.rooms import MOVES

from redco_new.render.imports import sort_imports
from redco_new.render.owners import in_runtime
from redco_new.update.file_merge import FileMerge
from redco_new.project.state import ProjectState

# Folders of what others wrote, or of what runs leave: no code of the project's user lies there.
SKIPPED = {"__pycache__", "node_modules", "runs", "site-packages"}


def migrate_sides(
    state: ProjectState, path: str, package: str, base: bytes | None, ours: bytes | None
) -> tuple[bytes | None, Migrated | None]:
    """Return what redco and the user wrote to a file, with what they call as redco has it now.

    A file that the user has not edited is left to the merge, which takes the template's.
    """
    if ours is None:
        return base, None
    if ours == base or state.manifest.interface == LATEST:
        return base, Migrated(ours)
    migrated_base = base and migrate_file(state, base, path, package).content
    return migrated_base, migrate_file(state, ours, path, package)


def migrate_file(state: ProjectState, content: bytes, path: str, package: str) -> Migrated:
    """Return a file after its migrations, its imports of the runtime in the order that redco's own have."""
    migrated = migrate(content, path, package, state.manifest.interface)
    if not migrated.steps or not path.endswith(".py"):
        return migrated
    return replace(migrated, content=sort_imports(migrated.content.decode(), package).encode())


def moved_files(state: ProjectState, package: str) -> dict[str, str]:
    """Return path -> path before, of what the user made of files of the runtime, which migrations move."""
    if state.manifest.interface >= ROOMS.number:
        return {}
    own = {x for x in state.manifest.files if in_runtime(x) and state.ours(x) != state.base(x)}
    moved = {
        moved_path(path, package, MOVES): path for path in {*own, *state.manifest.ejected_paths}
    }
    return {new: old for new, old in moved.items() if new and state.ours(old) is not None}


def has_module(state: ProjectState, package: str, path: str) -> bool:
    """Tell whether a project has a file of the runtime, by its path of today or by a former one."""
    if state.ours(path) is not None or state.manifest.interface >= ROOMS.number:
        return state.ours(path) is not None
    former = [x for x in state.manifest.files if moved_path(x, package, MOVES) == path]
    return any(state.ours(x) is not None for x in former)


def migrate_own_files(
    state: ProjectState, package: str, others: Collection[str]
) -> Iterator[FileMerge]:
    """Yield what becomes of the user's own Python files, which redco never wrote, where that changes.

    others: the files that redco writes.
    """
    if state.manifest.interface == LATEST:
        return
    for path, content in own_files(state, others).items():
        migrated = migrate_file(state, content, path, package)
        merge = FileMerge(path, content, migrated.content, steps=migrated.steps)
        merge = with_stale_names(state, merge)
        if merge.changed or merge.warnings:
            yield merge


def own_files(state: ProjectState, others: Collection[str]) -> dict[str, bytes]:
    """Return {path: content} of the user's own Python files, which redco does not write, in the runtime too.

    others: the files that redco writes.
    """
    contents = {path: state.ours(path) for path in _python_files(state.root) if path not in others}
    return {path: content for path, content in contents.items() if content is not None}


def with_stale_names(state: ProjectState, merge: FileMerge) -> FileMerge:
    """Return the merge with a warning for each name in its result that redco no longer has."""
    code = merge.path.endswith(".py") and not in_runtime(merge.path)
    if merge.after is None or not code or state.manifest.interface == LATEST:
        return merge
    warnings = stale_names(merge.after, merge.path, state.manifest.interface)
    return replace(merge, warnings=(*merge.warnings, *warnings))


def _python_files(root: Path) -> Iterator[str]:
    """Yield the paths of a project's Python files, without links, environments, and hidden folders."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if name not in SKIPPED
            and not name.startswith(".")
            and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
        )
        for name in sorted(names):
            file = Path(folder, name)
            if name.endswith(".py") and not file.is_symlink():
                yield file.relative_to(root).as_posix()
