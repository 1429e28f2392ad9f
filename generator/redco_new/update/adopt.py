"""`redco adopt`: a project that lost its records, or whose package was renamed, is looked after again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redco_merge import changed_lines
from redco_merge.migrate import LATEST

from redco_new.errors import RedcoError
from redco_new.project.archive import pack
from redco_new.project.manifest import Manifest
from redco_new.project.records import BASE, Records, digests, read_records, record_files
from redco_new.render.owners import EJECTED, in_runtime
from redco_new.request import Request
from redco_new.request.names import package_name
from redco_new.transaction import MANIFEST, Change, apply, sha256
from redco_new.update.candidates import (
    axes_of_layout,
    find_package,
    first_requests,
    other_settings,
)
from redco_new.update.changes import file_change
from redco_new.update.plan import Progress
from redco_new.project.state import read_file
from redco_new.update.redco_toml import REDCO_TOML
from redco_new.update.regenerate import Regeneration
from redco_new.update.run import open_project

if TYPE_CHECKING:
    from redco_new.render.template import Template

NAME_LINE = re.compile(r"^name\s*=.*$", re.MULTILINE)  # of redco.toml: Request.to_toml has it first


@dataclass(frozen=True)
class Base:
    """What redco may have written for a project.

    request: what was asked for.
    files: path -> text.
    model_record: the model, for the manifest.
    interface: the number of the last migration before it.
    """

    request: Request
    files: Mapping[str, str]
    model_record: Mapping[str, Any] | None
    interface: int = LATEST

    def distance(self, root: Path) -> int:
        """Return how many lines the files of a project differ in, which count as its user's edits."""
        return sum(
            sum(changed_lines(text.encode(), read_file(root, path) or b""))
            for path, text in self.files.items()
        )


@dataclass(frozen=True)
class Adoption:
    """What came of an adoption.

    base: what counts as written by redco.
    edited_paths: the files that differ from it.
    missing_paths: those that are not there.
    """

    base: Base
    edited_paths: list[str]
    missing_paths: list[str]


def adopt(
    root: Path,
    flags: Mapping[str, Any],
    source: Path | None = None,
    progress: Progress = lambda step: None,
) -> Adoption:
    """Write records for the project `root`: what redco writes for it is the base, the rest its user's edits.

    flags: as Request.with_flags takes them: what the project does not say itself.
    source: a fork of redco's templates, or None for redco's own.
    Nothing of the project is changed but the name in redco.toml, where its package has another, or redco.toml
    itself, where it is missing. Raises RedcoError, with nothing written.
    """
    from redco_new.render.template import open_template  # here: it imports copier

    package = find_package(root)
    former = _former_records(root, package)
    with open_template(source) as template:
        bases = [
            *_renderings(root, package, first_requests(root, package, flags), template, progress)
        ]
    bases += _former_base(root, package, former, bases[0]) if former else []
    base = min(bases, key=lambda base: base.distance(root))
    if base.interface == LATEST:
        _check_version(root, base)
    manifest = _manifest(root, base, source is not None)
    changes = _changes(root, base, manifest)
    (root / MANIFEST).parent.mkdir(exist_ok=True)
    with open_project(root, progress):
        apply(root, changes)
    contents = {path: read_file(root, path) for path in manifest.files}
    missing = [path for path, content in contents.items() if content is None]
    edited = [
        path
        for path, content in contents.items()
        if content and sha256(content) != manifest.files[path]
    ]
    return Adoption(base, edited, missing)


def _former_records(root: Path, package: str) -> Records | None:
    """Return what redco remembers of the project; None where nothing. Raises RedcoError if all is well."""
    try:
        records = read_records(root)
    except RedcoError:
        return None
    if any(path.startswith(f"{package}/") for path in records.base):
        what = "redco looks after it already, wherever it lies"
        raise RedcoError(str(root), what, "`redco update` brings it up to date")
    return records


def _renderings(
    root: Path, package: str, requests: list[Request], template: Template, progress: Progress
) -> Iterator[Base]:
    """Yield what redco writes for a request, of those that fit best. Raises RedcoError if none can be read."""
    mesh = axes_of_layout(root, package)
    tried = [*_tried(requests, template, progress)]
    best, regeneration = min(tried, key=lambda pair: pair[0].distance(root))
    for change in other_settings(best.request, mesh):
        if best.files[f"{package}/sharding.py"].encode() == read_file(
            root, f"{package}/sharding.py"
        ):
            break
        for other in _tried([replace(best.request, **change)], template, progress):
            if other[0].distance(root) < best.distance(root):
                best, regeneration = other
    progress("reading your model")
    files, _ = regeneration.of_own_model(root.resolve())
    yield best
    yield replace(best, files=files)


def _tried(
    requests: list[Request], template: Template, progress: Progress
) -> Iterator[tuple[Base, Regeneration]]:
    for request in requests:
        try:
            regeneration = Regeneration(request, template, progress)
        except RedcoError:
            if len(requests) == 1:
                raise
            continue
        yield Base(request, regeneration.files, regeneration.model_record), regeneration


def _former_base(root: Path, package: str, records: Records, today: Base) -> Iterator[Base]:
    """Yield what another redco wrote before the package was renamed, with its new name.

    today: what this redco writes: another's runtime is not the same.
    """
    manifest = records.manifest
    old = manifest.request["name"]
    words = {old: today.request.name, package_name(old): package}
    pattern = re.compile("|".join(rf"(?<![\w-]){re.escape(word)}(?![\w-])" for word in words))

    def renamed(text: str) -> str:
        return pattern.sub(lambda match: words[match[0]], text)

    files = {}
    for path, content in records.base.items():
        text = content.decode()
        files[renamed(path)] = text if in_runtime(path) else renamed(text)
    runtime = (path for path in today.files if in_runtime(path))
    if any(files.get(path) != today.files[path] for path in runtime):
        yield Base(today.request, files, manifest.model_record, manifest.interface)


def _check_version(root: Path, base: Base) -> None:
    """Raise RedcoError where the runtime of a project is that of another redco: its base is not known."""
    runtime = {path: x for path, x in base.files.items() if in_runtime(path)}
    same = sum(read_file(root, path) == text.encode() for path, text in runtime.items())
    if 2 * same < len(runtime):
        what = f"{same} of its {len(runtime)} files of the runtime are those of this redco"
        todo = "install the redco that made it, adopt it with that, then update it with this one"
        raise RedcoError(str(root), what, todo)


def _manifest(root: Path, base: Base, fork: bool) -> Manifest:
    ejected = [
        path
        for path in base.files
        if EJECTED.encode() in (read_file(root, path) or b"").split(b"\n")[:2]
    ]
    files = {path: text for path, text in base.files.items() if path not in ejected}
    return Manifest(
        base.request.to_dict(),
        digests({path: text.encode() for path, text in files.items()}),
        fork,
        tuple(ejected),
        model_record=base.model_record,
        interface=base.interface,
    )


def _changes(root: Path, base: Base, manifest: Manifest) -> list[Change]:
    """Return the files of the records, and redco.toml with the name of the project."""
    packed = pack({path: base.files[path].encode() for path in manifest.files})
    contents: dict[str, bytes | None] = {**dict.fromkeys(record_files(root))}
    contents |= {BASE: packed, MANIFEST: manifest.to_json().encode()}
    toml = read_file(root, REDCO_TOML)
    if toml is None:
        contents[REDCO_TOML] = base.files[REDCO_TOML].encode()
    elif Request.from_toml(toml.decode("utf-8-sig"), REDCO_TOML, root).name != base.request.name:
        text = NAME_LINE.sub(f'name = "{base.request.name}"', toml.decode(), count=1)
        contents[REDCO_TOML] = text.encode()
    return [file_change(path, read_file(root, path), x) for path, x in contents.items()]
