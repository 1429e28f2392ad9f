"""`redco eject`: a generated file becomes its user's, and redco leaves it alone."""

from dataclasses import replace
from pathlib import Path

from redco_new.errors import RedcoError
from redco_new.render.owners import GENERATED, eject_header, owner
from redco_new.request.names import package_name
from redco_new.transaction import apply
from redco_new.update.changes import file_change, record_changes
from redco_new.project.state import ProjectState, read_project_state
from redco_new.update.run import open_project


def eject(root: Path, target: str) -> list[str]:
    """Leave the generated file `target`, or those of that folder, to the user. Returns their paths.

    Raises RedcoError if redco did not generate it.
    """
    with open_project(root):
        state = read_project_state(root)
        manifest = state.manifest
        paths = _generated_paths(state, target)
        gone = set(paths)
        changes = []
        for path in paths:
            before = state.ours(path)
            if before is not None:
                changes.append(file_change(path, before, eject_header(before)))
        without = replace(
            manifest,
            files={path: digest for path, digest in manifest.files.items() if path not in gone},
            ejected_paths=(*manifest.ejected_paths, *paths),
            pending=tuple(change for change in manifest.pending if change.path not in gone),
        )
        base = {path: x for path, x in state.records.base.items() if path not in gone}
        apply(root, changes + record_changes(state, without, base))
    return paths


def _generated_paths(state: ProjectState, target: str) -> list[str]:
    """Return the generated files that `target` names. Raises RedcoError."""
    manifest = state.manifest
    target = target.rstrip("/")
    package = package_name(manifest.request["name"])
    if target in manifest.ejected_paths:
        raise RedcoError("PATH", f"{target} is yours already", "there is nothing to do")
    matches = [x for x in manifest.files if x == target or x.startswith(f"{target}/")]
    if not matches:
        raise RedcoError("PATH", f"redco did not write {target}", "see .redco/manifest.json")
    paths = [path for path in matches if owner(path, package) == GENERATED]
    if not paths:
        what = f"{target} is yours already: redco merges into it, and never overwrites it"
        raise RedcoError("PATH", what, "there is nothing to do")
    return paths
