"""What a project without records may have been made from: requests, read from the project's own files."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from redco_new.errors import RedcoError
from redco_new.request import Request
from redco_new.request.features import check_features, features_with
from redco_new.request.launch import DEFAULT_LAUNCH, launchers_with
from redco_new.request.mesh import AXES, check_mesh
from redco_new.request.names import check_name, package_name
from redco_new.request.toml import value_text
from redco_new.project.state import read_file
from redco_new.update.printed import with_printed
from redco_new.update.redco_toml import REDCO_TOML, keys_of

# Modules that every project has in its package; a user may have deleted one or the other.
MODULES = ("config", "pipeline", "sharding", "steps", "train")
FEWEST_MODULES = 3


def find_package(root: Path) -> str:
    """Return the package of a project, by its modules. Raises RedcoError if there is none, or several."""
    if not root.is_dir():
        raise RedcoError(str(root), "no such folder", "give that of a project that redco-new made")
    packages = [
        folder.name
        for folder in sorted(root.iterdir())
        if sum((folder / f"{name}.py").is_file() for name in MODULES) >= FEWEST_MODULES
    ]
    if len(packages) == 1:
        return packages[0]
    files = ", ".join(f"{name}.py" for name in MODULES)
    what = f"it has {len(packages)} folders with {files}, of which a project has one"
    raise RedcoError(str(root), what, "give the folder of a project that redco-new made")


def project_name(root: Path, package: str, name: str) -> str:
    """Return the name of a project of that package. Raises RedcoError if none can have it.

    name: the one that its redco.toml has; "" for none.
    """
    folder = root.resolve().name
    names = (name, folder, package.replace("_", "-"))
    return next(
        (x for x in names if package_name(x) == package), check_name("its package", package)
    )


def first_requests(root: Path, package: str, flags: Mapping[str, Any]) -> list[Request]:
    """Return what may have been asked for: by redco.toml, by flags, or by the code of the model.

    Raises RedcoError, which names the key or the flag, or says what to give.
    """
    content = read_file(root, REDCO_TOML)

    def has(path: str) -> bool:
        return read_file(root, path) is not None

    launch = launchers_with(has)
    features = check_features("--features", [*features_with(package, has)])
    if content is not None:
        request = Request.from_toml(content.decode("utf-8-sig", "replace"), REDCO_TOML, root)
        if "launch" not in keys_of(content):
            request = replace(request, launch=launch)
        features = check_features("--features", [*request.features, *features])
        request = replace(request, features=features)
        if request.via:
            request = with_printed(request, lambda path: read_file(root, path))
        name = project_name(root, package, request.name)
        return [replace(request, name=name).with_flags(**flags)]
    name = project_name(root, package, "")
    models = [{}] if flags["model"] else [*_models(root, package)]
    if not models:
        what = "it has no redco.toml, and its model is of no family that redco knows"
        raise RedcoError(str(root), what, "say it as redco-new would take it: --model, --recipe")
    features += check_features("--features", flags["features"] or [])
    requests = [
        Request.from_flags(name, folder=root, **{**flags, "features": features, **model})
        for model in models
    ]
    if flags["launch"] is None and not {*launch} <= {*DEFAULT_LAUNCH}:  # else one was deleted
        requests = [replace(request, launch=launch) for request in requests]
    mesh = axes_of_layout(root, package)
    if flags["shards"] is None and flags["mesh"] is None and mesh:
        requests = [replace(request, mesh=mesh) for request in requests]
    return requests


def _models(root: Path, package: str) -> Iterator[dict[str, str]]:
    """Yield the model, size and recipe that the code may be of: by its class, and its tokenizer."""
    from redco_new.models.families import FAMILIES  # here: it takes a while

    model, config = (
        (read_file(root, f"{package}/{name}.py") or b"").decode("utf-8", "replace")
        for name in ("model", "config")
    )
    for family in FAMILIES.values():
        if f"class {family.model_class}(" not in model:
            continue
        sizes = [name for name, x in family.sizes.items() if value_text(x.tokenizer) in config]
        for size in sizes or family.sizes:
            for recipe in family.recipes:
                settings = {"size": size, "recipe": recipe}
                usual = {"size": next(iter(family.sizes)), "recipe": family.recipes[0]}
                yield {"model": family.name, **dict(settings.items() - usual.items())}


def other_settings(request: Request, mesh: Mapping[str, int] | None) -> Iterator[Mapping[str, Any]]:
    """Yield changes of a request, one setting each, that its layout may have been made with."""
    if mesh and mesh != request.mesh:
        yield {"mesh": mesh}
    yield {"zero": 1 - request.zero}
    yield {"sequence_parallel": not request.sequence_parallel}
    if request.is_family:
        yield {"dtype": "float32" if request.dtype == "bfloat16" else "bfloat16"}


def axes_of_layout(root: Path, package: str) -> dict[str, int] | None:
    """Return the mesh that sharding.py was written for; None where it does not say."""
    content = read_file(root, f"{package}/sharding.py") or b""
    try:
        tree = ast.parse(content)
        (axes,) = [
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "AXES"
        ]
        return dict(check_mesh("AXES", {axis: axes.get(axis, 1) for axis in AXES}))
    except (SyntaxError, ValueError, AttributeError, RedcoError):
        return None
