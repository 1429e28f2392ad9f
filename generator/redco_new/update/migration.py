"""What users' code calls of redco, as redco has it now: both sides of a merge, and files of the user's own."""

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from redco_new.migrate import LATEST, Migrated, migrate, stale_names
from redco_new.render.owners import in_runtime
from redco_new.update.file_merge import FileMerge
from redco_new.update.project_state import ProjectState

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
    if ours == base or not _is_migrated(state, path):
        return base, Migrated(ours)
    interface = state.manifest.interface
    migrated_base = base and migrate(base, path, package, interface).content
    return migrated_base, migrate(ours, path, package, interface)


def migrate_own_files(
    state: ProjectState, package: str, others: Collection[str]
) -> Iterator[FileMerge]:
    """Yield what becomes of the user's own Python files, which redco never wrote, where that changes.

    others: the files that redco writes.
    """
    if state.manifest.interface == LATEST:
        return
    for path, content in own_files(state, others).items():
        if not _is_migrated(state, path):
            continue
        migrated = migrate(content, path, package, state.manifest.interface)
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
    if merge.after is None or not _is_migrated(state, merge.path):
        return merge
    warnings = stale_names(merge.after, merge.path, state.manifest.interface)
    return replace(merge, warnings=(*merge.warnings, *warnings))


def _is_migrated(state: ProjectState, path: str) -> bool:
    """Tell whether migrations are about a file."""
    code = path.endswith(".py") and not in_runtime(path)
    return code and state.manifest.interface != LATEST


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
