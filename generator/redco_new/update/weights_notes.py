"""Whether weights.py of a project still is about the parameters of its model."""

from __future__ import annotations

from typing import Any

from redco_new.models.program import Program
from redco_new.update.user_model import ProjectPackage

# How the paths of a linear layer end: as files have it, in blocks of few bits, and of the adapter beside it.
KERNEL, CODES, SCALES = "/kernel", "/codes", "/scales"
ADAPTER = ("/lora_a", "/lora_b", "/lora_m")


def weights_notes(package: ProjectPackage, program: Program) -> list[str]:
    """Return where weights.py no longer is about the parameters of the model."""
    from redco_runtime.base.state import flatten  # the project's own, while it is imported

    # That of a class of the user's own asks the model for its paths: none is written down.
    if package.weights is None or hasattr(package.weights, "own_paths"):
        return []
    try:
        names, copies = _stored_paths(package)
    except Exception:  # the user's own code may raise anything, and says so when it is used
        return []
    own = {path for path in flatten(program.params) if path.partition("/")[0] not in copies}
    paths = _without_adapter(own)
    variables = {*flatten(program.variables)}  # which files may have too, as BART's bias of logits
    new, gone = ", ".join(sorted(paths - names)), ", ".join(sorted(names - paths - variables))
    where = f"tensors() in {package.path('weights')}"
    todo = "`export` needs one, and a checkpoint of `--init` gives them nothing"
    return [
        *([f"{where} has no name for {new}: {todo}"] if new else []),
        *([f"{where} names {gone}, which the model no longer has"] if gone else []),
    ]


def _stored_paths(package: ProjectPackage) -> tuple[set[str], set[str]]:
    """Return (the paths of the parameters that weights.py names, branches that start as another and are in no files).

    Those of several models are each in a branch.
    """
    config, pipeline = package.full_config, package.pipeline
    of_head = getattr(pipeline, "head_weights", lambda config, weights: weights)
    weights = of_head(config, package.weights)
    apart = getattr(package.weights, "APART", {})

    def paths(sizes: Any) -> set[str]:
        """Return the paths as the model has them: what is stored as several is one there."""
        wholes = ((path, path.rpartition("/")[0]) for path in weights.tensors(sizes))
        return {whole if whole in apart else path for path, whole in wholes}

    if not hasattr(pipeline, "starts"):
        return paths(config.model), set()
    models = pipeline.starts(config, None)
    copies = {name for name, start in models.items() if isinstance(start, str)}
    sizes = {name: start[1] for name, start in models.items() if name not in copies}
    return {f"{name}/{path}" for name, x in sizes.items() for path in paths(x)}, copies


def _without_adapter(paths: set[str]) -> set[str]:
    """Return the paths that a model has in files: its adapter is in others, a matrix in few bits is a kernel."""
    stored = {path.removesuffix(CODES) for path in paths if path.endswith(CODES)}
    whole = {path for path in paths if path.removesuffix(SCALES).removesuffix(CODES) not in stored}
    return {path for path in whole if not path.endswith(ADAPTER)} | {x + KERNEL for x in stored}
