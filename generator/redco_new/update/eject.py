"""`redco eject`: a generated file becomes its user's, and redco leaves it alone."""

from dataclasses import replace
from pathlib import Path

from redco_new.errors import RedcoError
from redco_new.project.manifest import base_path
from redco_new.request.names import package_name
from redco_new.render.owners import GENERATED, eject_header, owner
from redco_new.transaction import apply
from redco_new.update import write
from redco_new.update.run import open_project
from redco_new.update.standing import Standing, stand


def eject(root: Path, target: str) -> list[str]:
    """Leave the generated file `target`, or those of that folder, to the user. Returns their paths.

    Raises RedcoError if redco did not generate it.
    """
    with open_project(root):
        standing = stand(root)
        manifest = standing.manifest
        paths = generated(standing, target)
        gone = set(paths)
        changes = []
        for path in paths:
            before = standing.ours(path)
            changes.append(write.change(base_path(path), standing.copies[path], None))
            if before is not None:
                changes.append(write.change(path, before, eject_header(before)))
        left = replace(
            manifest,
            files={path: digest for path, digest in manifest.files.items() if path not in gone},
            ejected=(*manifest.ejected, *paths),
            pending=tuple(each for each in manifest.pending if each.path not in gone),
        )
        apply(root, changes + write.remembered(standing, left))
    return paths


def generated(standing: Standing, target: str) -> list[str]:
    """The generated files that `target` names. Raises RedcoError."""
    manifest = standing.manifest
    target = target.rstrip("/")
    package = package_name(manifest.request["name"])
    if target in manifest.ejected:
        raise RedcoError("PATH", f"{target} is yours already", "there is nothing to do")
    found = [x for x in manifest.files if x == target or x.startswith(f"{target}/")]
    if not found:
        raise RedcoError("PATH", f"redco did not write {target}", "see .redco/manifest.json")
    paths = [path for path in found if owner(path, package) == GENERATED]
    if not paths:
        what = f"{target} is yours already: redco merges into it, and never overwrites it"
        raise RedcoError("PATH", what, "there is nothing to do")
    return paths
