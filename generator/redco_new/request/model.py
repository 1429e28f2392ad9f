"""--model as it was typed: the name of a family, an id of the hub, a folder, or a class of the user's own."""

import os
from pathlib import Path

from redco_new.errors import RedcoError
from redco_new.request import own_class
from redco_new.request.checks import check_word
from redco_new.request.own_class import OwnClass


def read_model(
    model: str | None, config: str | None, example: str | None, folder: Path
) -> tuple[str, OwnClass | None]:
    """Return --model as a request has it, and what the user says of it if it is their own class.

    model: None for the one that the recipe brings.
    Raises RedcoError, which names the flag.
    """
    if model is None:
        return "", read_own("", config, example, folder)
    model = check_word("--model", model)
    if own_class.is_own(model):
        model = own_class.relative_to(folder, own_class.check_reference("--model", model))
    elif is_folder(model):
        model = _path_inside(folder, model)
    return model, read_own(model, config, example, folder)


def read_own(model: str, config: str | None, example: str | None, folder: Path) -> OwnClass | None:
    """Return what --config and --example say of an own class; None for other models.

    Raises RedcoError, which names the flag.
    """
    if own_class.is_own(model):
        return own_class.from_flags(config, example, folder)
    if config or example:
        what = f"{model or 'no --model'} is no class of your own, which it is for"
        flag = "--config" if config else "--example"
        raise RedcoError(flag, what, "leave it out, or give --model FILE.py:NAME")
    return None


def check_dtype_of(model: str, own: OwnClass | None, dtype: str | None) -> None:
    """Raise RedcoError if --dtype is given for what computes in what its own code says."""
    if not own_class.has_dtype(model, own) and dtype is not None:
        what = f"{model or 'the model of a recipe'} computes in what its own code says"
        todo = f"leave it out, or give {'it in [model]' if own else '--model'}"
        raise RedcoError("--dtype", what, todo)


def is_folder(model: str) -> bool:
    """Return whether --model is the path of a checkpoint, rather than a family or an id of the hub."""
    return model.startswith((".", "/", "~")) or ("/" in model and Path(model).is_dir())


def _path_inside(folder: Path, path: str) -> str:
    """Return a path as typed in the working folder, as it is typed in `folder`: ../checkpoint."""
    relative = own_class.path_from(folder, os.path.expanduser(path))
    return relative if relative.startswith(".") else f"./{relative}"
